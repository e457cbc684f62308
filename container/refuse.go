package container

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Nothing that a config.json asks for may be dropped silently. So the check
// doesn't list what is refused but what is built: it walks the whole Spec by
// reflection, and every value that asks for something and isn't on the list
// is refused by its JSON path. A field that a later runtime-spec adds is
// refused until someone builds it.

// Note tells of something in a config.json that wolffia takes differently
// from what it says, or that is met without doing anything.
type Note struct {
	Path string // JSON path: "process.terminal"
	Text string
}

// UnsupportedFieldError refuses one value of a config.json.
type UnsupportedFieldError struct {
	Path   string // JSON path with indexes: "mounts[2].options[0]"
	What   string // why it can't be had
	Remedy string // what to do about it
}

func (e *UnsupportedFieldError) Error() string {
	return "config.json: " + e.Path + ": " + e.What + "\n  " + e.Remedy
}

// CheckSpec says whether wolffia can do all that spec asks for. The error
// joins one *UnsupportedFieldError for each value that it can't do; the notes,
// in the order of the fields, belong in the result of the run. It performs no
// system call and doesn't change spec.
func CheckSpec(spec *specs.Spec) ([]Note, error) {
	c := &check{}
	c.fields("", "", reflect.ValueOf(spec).Elem())
	c.values(spec)
	return c.notes, errors.Join(c.refused...)
}

// check collects what CheckSpec finds.
type check struct {
	notes   []Note
	refused []error
}

func (c *check) refuse(at, what, remedy string) {
	c.refused = append(c.refused, &UnsupportedFieldError{Path: at, What: what, Remedy: remedy})
}

func (c *check) note(at, text string) {
	c.notes = append(c.notes, Note{Path: at, Text: text})
}

// fields walks the fields of the struct v. at is its place with indexes, for
// people; schema is the same without, for the table: "mounts[].type".
func (c *check) fields(at, schema string, v reflect.Value) {
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		field := v.Type().Field(i)
		switch name := jsonName(field); {
		case field.Anonymous && name == "":
			c.fields(at, schema, v.Field(i))
		default:
			c.value(joinPath(at, name), joinPath(schema, name), v.Field(i))
		}
	}
}

// value refuses v if it asks for something that isn't built. It goes as deep
// as the table does not say otherwise: the error names the smallest thing
// whose removal helps.
func (c *check) value(at, schema string, v reflect.Value) {
	use := useOf(schema)
	switch {
	case use == built:
	case use == wholeObject:
		c.refuseField(at, schema)
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		c.fields(at, schema, v.Elem())
	case v.Kind() == reflect.Struct:
		c.fields(at, schema, v)
	case use == walkedList:
		for i := range v.Len() {
			c.fields(at+"["+strconv.Itoa(i)+"]", schema+"[]", v.Index(i))
		}
	case !isEmptyList(v):
		c.refuseField(at, schema)
	}
}

func (c *check) refuseField(at, schema string) {
	what, remedy := refusal(schema)
	c.refuse(at, what, remedy)
}

// isEmptyList: [] and {} ask for nothing, while a pointer to 0 does.
func isEmptyList(v reflect.Value) bool {
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// jsonName is the property of a field, "" for the fields of an embedded struct.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && !field.Anonymous {
		return field.Name
	}
	return name
}

func joinPath(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}
