package cgroup

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"64m": 64 << 20, "64M": 64 << 20, "64MiB": 64 << 20, "64mb": 64 << 20, "67108864": 64 << 20, "67108864b": 64 << 20,
		" 64 m ": 64 << 20, "1k": 1024, "1.5g": 3 << 29, "0.5k": 512, "2t": 2 << 40, "9223372036854775807": math.MaxInt64,
	} {
		if n, err := ParseSize("--memory", text); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	for text, cause := range map[string]string{
		"": "no amount", "m": "no amount", "64x": "no amount", "64mm": "no amount", "-1": "no amount", "1e3": "no amount", "0x10": "no amount",
		"1.m": "no amount", ".5m": "no amount", "1.2.3": "no amount", "+5": "no amount", "50%": "no amount", "max": "no amount", "1/2": "no amount",
		"0": "zero", "0m": "zero", "0.0": "zero", "0.5": "whole bytes", "0.3k": "whole bytes",
		"9223372036854775808": "more than", "8388608t": "more than", "99999999999999999999": "more than", "18446744073709551615.5k": "more than",
	} {
		_, err := ParseSize("--memory", text)
		var fault *ValueError
		if !errors.As(err, &fault) || fault.What != "--memory" || !strings.Contains(fault.Cause, cause) {
			t.Errorf("%q: %v; want %q", text, err, cause)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]uint64{"0.5": 50000, "1": 100000, "2.25": 225000, "0.01": 1000, "64": 6400000} {
		if n, err := ParseCPUs("--cpus", text); err != nil || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
	for text, cause := range map[string]string{"0": "zero", "0.0": "zero", "0.001": "0.01", "": "no number", "-1": "no number", "NaN": "no number", "1e9": "no number",
		"70000": "no machine", "99999999999999999999": "no machine"} {
		if _, err := ParseCPUs("--cpus", text); err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%q: %v; want %q", text, err, cause)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64m", "1.5GiB", "0", "99999999999999999999t", "1.0000000000000000001k", ".b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize("x", text)
		if err == nil && (n == 0 || n > maxBytes) {
			t.Errorf("%q: %d", text, n)
		}
		if _, err := ParseCPUs("x", text); err == nil && strings.HasPrefix(text, "-") {
			t.Errorf("%q is a number of CPUs", text)
		}
	})
}

func TestSizeText(t *testing.T) {
	for n, want := range map[uint64]string{64 << 20: "64 MiB", 512: "512 B", 1 << 30: "1 GiB", 64<<20 - 4096: "64.0 MiB", 0: "0 B", 1500: "1.5 KiB", 5000 << 40: "5000 TiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func FuzzParseList(f *testing.F) {
	f.Add("0-3,7")
	f.Add("3-1")
	f.Add(",")
	f.Fuzz(func(t *testing.T, text string) {
		list, ok := parseList(text)
		for i, n := range list {
			if ok && (n < 0 || n >= most || i > 0 && list[i-1] >= n) {
				t.Errorf("%q: %d", text, list)
			}
		}
		if ok && !sameList(text, text) {
			t.Errorf("%q isn't itself", text)
		}
	})
}
