package topology

import (
	"reflect"
	"slices"
	"strings"
)

// field is one of a type as documents have it.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	owner reflect.Type // that declares it
	ident string       // its name in Go
}

// fieldsOf are those of a struct, in its order; those of an inlined one stand with its own.
func fieldsOf(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case slices.Contains(strings.Split(options, ","), "inline"):
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				list = append(list, inner)
			}
		case name != "":
			list = append(list, field{name, []int{i}, f.Type, t, f.Name})
		}
	}
	return list
}

func fieldNames(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}
