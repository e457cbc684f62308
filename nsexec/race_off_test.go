//go:build !race

package nsexec

const raceDetector = false
