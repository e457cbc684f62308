package userns

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ParseError is text that isn't an extent, a map or a --map value. Field names the part at fault ("inside",
// "outside", "length", or "extent" for the whole).
type ParseError struct{ Field, Text, Reason string }

func (e *ParseError) Error() string {
	return fmt.Sprintf("userns: parse %s %q: %s", e.Field, e.Text, e.Reason)
}

// ParseExtent parses "C:H:N": the first id inside, the first id outside, the number of ids, in decimal. Anything
// else is a *ParseError: a sign, another number of fields, a length of zero, ids past 4294967294.
func ParseExtent(s string) (Extent, error) {
	fields := strings.Split(s, ":")
	if len(fields) != 3 {
		return Extent{}, &ParseError{"extent", s, "want C:H:N (first id inside, first id outside, how many)"}
	}
	return extentOf(s, fields)
}

// extentOf makes an extent of three fields of the text s.
func extentOf(s string, fields []string) (Extent, error) {
	var numbers [3]uint32
	for i, name := range [3]string{"inside", "outside", "length"} {
		n, err := parseID(fields[i])
		if err != nil {
			return Extent{}, &ParseError{name, fields[i], err.Error() + " (in \"" + s + "\")"}
		}
		numbers[i] = n
	}
	e := Extent{numbers[0], numbers[1], numbers[2]}
	if reason := e.fault(); reason != "" {
		return Extent{}, &ParseError{"extent", s, reason.text()}
	}
	return e, nil
}

// parseID parses a decimal number of 32 bits without a sign.
func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	switch {
	case err == nil:
		return uint32(n), nil
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("is larger than 4294967295")
	default:
		return 0, errors.New("is not a decimal number without a sign")
	}
}

// ParseExtents parses the value of --uid-map and --gid-map: "C:H:N[,C:H:N…]". Overlaps and limits are
// [IDMap.Validate]'s.
func ParseExtents(s string) (IDMap, error) {
	var m IDMap
	for text := range strings.SplitSeq(s, ",") {
		e, err := ParseExtent(text)
		if err != nil {
			return nil, err
		}
		m = append(m, e)
	}
	return m, nil
}

// ParseIDMap parses the content of /proc/PID/uid_map or gid_map. A namespace whose map isn't written yet has an
// empty file and gives an empty map.
func ParseIDMap(text string) (IDMap, error) {
	var m IDMap
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, &ParseError{"extent", line, fmt.Sprintf("line %d: want three numbers", len(m)+1)}
		}
		e, err := extentOf(line, fields)
		if err != nil {
			return nil, err
		}
		m = append(m, e)
	}
	return m, nil
}
