package topology

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder makes a document of files, and tells where each value stands. A value that came from the environment is named as it
// is written.
type decoder struct {
	options  LoadOptions
	document *Document
	problems Problems
	places   map[string]place // by the path of a value
	secrets  secrets
	files    int
	broken   bool // a file says nothing, so that what is missing means nothing
	nodes    int

	source *source
	raw    map[*yaml.Node]string // of values with variables: as they are written
}

// into decodes a file's root.
func (d *decoder) into(root *yaml.Node) {
	d.broken = d.broken || root.Kind != yaml.MappingNode
	d.value(root, reflect.ValueOf(d.document).Elem(), "", 0)
}

// environment substitutes variables in all values, and in no name.
func (d *decoder) environment(n *yaml.Node, depth int) {
	if depth > maxDepth {
		return // value refuses it
	}
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			d.environment(c, depth+1)
		}
	}
	if n.Kind != yaml.ScalarNode || !refers(n.Value) {
		return
	}
	text, wrong, do := d.secrets.substitute(n.Value, d.options.Lookup)
	if wrong != "" {
		d.wrong(n, "", do, "%s", wrong)
	}
	d.raw[n] = n.Value
	n.Value = text
}

// shown is a value as it may be shown.
func (d *decoder) shown(n *yaml.Node) string {
	if raw, ok := d.raw[n]; ok {
		return fmt.Sprintf("%.80q", raw)
	}
	return fmt.Sprintf("%.80q", n.Value)
}

func (d *decoder) wrong(n *yaml.Node, path, do, format string, args ...any) {
	d.problems = append(d.problems, &Problem{Position: Position{d.source.name, n.Line, n.Column}, Path: path, What: fmt.Sprintf(format, args...), Do: do})
}

// under is the path of what stands below another.
func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value decodes a node.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	for n.Kind == yaml.AliasNode {
		n, depth = n.Alias, depth+1
		if depth > maxDepth {
			break
		}
	}
	if d.nodes++; depth > maxDepth || d.nodes > maxNodes {
		if d.nodes <= maxNodes || d.nodes == maxNodes+1 {
			d.wrong(n, path, "write it flatter, with fewer aliases", "it is nested too deep, or has too many values")
		}
		return
	}
	if v.Kind() != reflect.Map && v.Kind() != reflect.Struct || n.Kind != yaml.MappingNode { // these are merged, and their values looked at
		if !d.once(n, path) {
			return
		}
	} else if _, there := d.places[path]; !there {
		d.places[path] = d.place(n)
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" && (n.Value == "" || n.Value == "~" || n.Value == "null") {
		switch v.Kind() {
		case reflect.Map, reflect.Struct, reflect.Pointer:
		case reflect.Interface: // which is another thing than that nothing is written
			v.Set(reflect.ValueOf(json.RawMessage("null")))
		default:
			d.wrong(n, path, "write a value, or leave the name out", "there is no value")
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.inner(n, v.Elem(), path, depth)
		return
	}
	d.inner(n, v, path, depth)
}

// once refuses what is declared twice.
func (d *decoder) once(n *yaml.Node, path string) bool {
	if first, there := d.places[path]; there {
		d.wrong(n, path, "leave one of them out", "it is declared already, at %s", first.at(0, 0))
		return false
	}
	d.places[path] = d.place(n)
	return true
}

// inner decodes a node that is no alias into what is no pointer.
func (d *decoder) inner(n *yaml.Node, v reflect.Value, path string, depth int) {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && (n.Kind == yaml.ScalarNode || v.Kind() != reflect.Struct) {
		d.text(n, u, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path, depth)
	case reflect.Map:
		d.mapping(n, v, path, depth)
	case reflect.Slice:
		d.list(n, v, path, depth)
	case reflect.Interface:
		d.any(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) text(n *yaml.Node, u encoding.TextUnmarshaler, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, path, "write one value", "there is %s", kindOf(n))
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.wrong(n, path, d.secrets.hide(plain(err), d.raw[n] != ""), "it is %s", d.shown(n))
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	fields := fieldsOf(v.Type())
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "write name: value below it; names are "+strings.Join(fieldNames(fields), ", "), "there is %s", kindOf(n))
		return
	}
	d.pairs(n, path, func(key, value *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			d.wrong(key, under(path, key.Value), meant(key.Value, fieldNames(fields), "leave it out"), "there is no such field")
			return
		}
		d.value(value, v.FieldByIndex(fields[i].index), under(path, key.Value), depth+1)
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, path, "write name: value below it", "there is %s", kindOf(n))
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.pairs(n, path, func(key, value *yaml.Node) {
		one := reflect.New(v.Type().Elem()).Elem()
		name := reflect.ValueOf(key.Value).Convert(v.Type().Key())
		if have := v.MapIndex(name); have.IsValid() {
			one.Set(have)
		}
		d.value(value, one, under(path, key.Value), depth+1)
		v.SetMapIndex(name, one)
	})
}

// pairs goes through a mapping, each name once.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Kind == yaml.AliasNode || key.Kind != yaml.ScalarNode:
			d.wrong(key, path, "write a name before the colon", "a name is %s", kindOf(key))
		case key.Tag == "!!merge":
			d.wrong(key, path, "write the values out, or include: a file", "<< is not read")
		case seen[key.Value]:
			d.wrong(key, under(path, key.Value), "leave one of them out", "it is declared twice")
		default:
			seen[key.Value] = true
			each(key, n.Content[i+1])
		}
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "write a list: [one, two], or a line beginning with - for each", "there is %s", kindOf(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		d.value(c, list.Index(i), under(path, strconv.Itoa(i)), depth+1)
	}
	v.Set(list)
}

func (d *decoder) any(n *yaml.Node, v reflect.Value, path string) {
	var value any
	if err := n.Decode(&value); err != nil {
		d.wrong(n, path, "write it plainly", "it cannot be read")
		return
	}
	if value != nil {
		v.Set(reflect.ValueOf(value))
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(n, path, "write one value", "there is %s", kindOf(n))
		return
	}
	want, err := "", error(nil)
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		want = "write true or false"
		switch n.Value {
		case "true":
			v.SetBool(true)
		case "false":
			v.SetBool(false)
		default:
			err = strconv.ErrSyntax
		}
	case reflect.Int, reflect.Int64:
		var i int64
		want = "write a whole number"
		i, err = strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 10, 64)
		v.SetInt(i)
	case reflect.Float64:
		var f float64
		want = "write a number"
		f, err = strconv.ParseFloat(n.Value, 64)
		v.SetFloat(f)
	default:
		panic("topology: a field of kind " + v.Kind().String())
	}
	if err != nil {
		d.wrong(n, path, want, "it is %s", d.shown(n))
	}
}
