package cgroup

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// ValueError is a value that was asked for and makes no sense.
type ValueError struct {
	What   string // the flag or the JSON path: "--memory"
	Value  string
	Cause  string
	Remedy string
}

func (e *ValueError) Error() string {
	msg := fmt.Sprintf("cgroup: %s %s: %s", e.What, strconv.Quote(e.Value), e.Cause)
	if e.Remedy != "" {
		msg += "\n  " + e.Remedy
	}
	return msg
}

// Max is what the kernel calls no limit.
const Max = "max"

const maxBytes = 1<<63 - 1

const sizeForms = "write bytes, or a number with k, m, g or t (64m, 64M, 64MiB and 67108864 are the same; units are powers of 1024)"

// ParseSize reads an amount of memory as people write it, in bytes. Units are
// powers of 1024, whatever their spelling, as Docker's and Podman's are. A
// fraction is fine if it gives whole bytes. what is named in the error.
func ParseSize(what, text string) (uint64, error) {
	fault := func(cause string) (uint64, error) {
		return 0, &ValueError{what, text, cause, sizeForms}
	}
	digits, shift, ok := splitUnit(strings.TrimSpace(text))
	if !ok {
		return fault("this is no amount of memory")
	}
	n, exact, err := scaled(digits, 1<<shift)
	switch {
	case err == errTooLarge || n > maxBytes:
		return fault("more than the kernel can count")
	case err != nil:
		return fault("this is no amount of memory")
	case !exact:
		return fault("these are no whole bytes")
	case n == 0:
		return fault("zero bytes: nothing could run")
	}
	return n, nil
}

// splitUnit takes "64MiB" apart into "64" and 20.
func splitUnit(text string) (digits string, shift uint, ok bool) {
	digits = strings.TrimRight(text, "bBiIkKmMgGtT ")
	switch strings.ToLower(strings.TrimSpace(text[len(digits):])) {
	case "", "b":
		return digits, 0, true
	case "k", "kb", "kib":
		return digits, 10, true
	case "m", "mb", "mib":
		return digits, 20, true
	case "g", "gb", "gib":
		return digits, 30, true
	case "t", "tb", "tib":
		return digits, 40, true
	}
	return "", 0, false
}

var (
	errNoNumber = errors.New("no number")
	errTooLarge = errors.New("too large")
)

// scaled reads a decimal number without sign or exponent ("1.5") and multiplies
// it by unit, which is at most 2⁴⁰. exact tells that the result is whole.
func scaled(text string, unit uint64) (n uint64, exact bool, err error) {
	whole, fraction, point := strings.Cut(text, ".")
	if point && fraction == "" || len(fraction) > 18 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, false, errNoNumber
	}
	w, err := strconv.ParseUint(whole, 10, 64)
	high, n := bits.Mul64(w, unit)
	switch {
	case errors.Is(err, strconv.ErrRange) || high != 0:
		return 0, false, errTooLarge
	case err != nil:
		return 0, false, errNoNumber
	case !point:
		return n, true, nil
	}
	f, _ := strconv.ParseUint(fraction, 10, 64)
	power := uint64(1)
	for range fraction {
		power *= 10
	}
	high, low := bits.Mul64(f, unit)
	part, rest := bits.Div64(high, low, power)
	n, carry := bits.Add64(n, part, 0)
	if carry != 0 {
		return 0, false, errTooLarge
	}
	return n, rest == 0, nil
}

// PeriodUSec is the default period of cpu.max, in µs.
const PeriodUSec = 100000

// quotaFloor is the least quota that the kernel takes, in µs (min_cfs_quota_period).
const quotaFloor = 1000

// ParseCPUs turns a number of CPUs ("0.5") into cpu.max's quota in µs for each
// PeriodUSec.
func ParseCPUs(what, text string) (quota uint64, err error) {
	fault := func(cause string) (uint64, error) {
		return 0, &ValueError{what, text, cause, "write a number of CPUs: 0.5 is half of one, 2 is two"}
	}
	n, _, err := scaled(strings.TrimSpace(text), PeriodUSec)
	switch {
	case err != nil && err != errTooLarge:
		return fault("this is no number of CPUs")
	case err != nil || n > most*PeriodUSec:
		return fault("no machine has as many")
	case n == 0 && strings.Trim(text, "0. ") == "":
		return fault("zero CPUs: nothing could run")
	case n < quotaFloor:
		return fault("the kernel takes no less than 0.01")
	}
	return n, nil
}

// parseCount reads a whole number from low to high.
func parseCount(what, text string, low, high uint64) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n < low || n > high {
		return 0, &ValueError{what, text, fmt.Sprintf("this has to be a whole number from %d to %d", low, high), ""}
	}
	return n, nil
}
