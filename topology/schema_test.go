package topology_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/echomq/pipeline/topology"
)

const schemaFile = "../docs/topology.schema.json"

var update = flag.Bool("update", false, "write the schema of documents")

// comments are what the types of documents, and their fields, say of themselves, by "Type" and "Type.Field".
func comments(t *testing.T) map[string]string {
	all := map[string]string{}
	note := func(name string, docs ...*ast.CommentGroup) {
		for _, d := range docs {
			if d != nil {
				all[name] = strings.Join(strings.Fields(d.Text()), " ")
			}
		}
	}
	for _, dir := range []string{".", "stage"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				g, ok := decl.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, spec := range g.Specs {
					ts, ok := spec.(*ast.TypeSpec)
					if !ok {
						continue
					}
					key := file.Name.Name + "." + ts.Name.Name
					note(key, g.Doc, ts.Doc)
					if st, ok := ts.Type.(*ast.StructType); ok {
						for _, f := range st.Fields.List {
							for _, n := range f.Names {
								note(key+"."+n.Name, f.Doc)
							}
						}
					}
				}
			}
		}
	}
	return all
}

// schemas makes schemas of types.
type schemas struct {
	comments map[string]string
	defs     map[string]any
}

type object = map[string]any

// variable is a value that the environment gives.
var variable = object{"type": "string", "pattern": `\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}`}

var textual = reflect.TypeFor[encoding.TextUnmarshaler]()

func (s *schemas) of(t reflect.Type) object {
	text := reflect.PointerTo(t).Implements(textual)
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string"}
	case text && t.Kind() != reflect.Struct, text && fieldCount(t) == 0:
		return object{"type": []string{"string", "integer"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.ref(t, text)
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": s.of(t.Elem())}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.String:
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.Bool:
		return object{"anyOf": []any{object{"type": "boolean"}, variable}}
	case reflect.Int, reflect.Int64:
		return object{"anyOf": []any{object{"type": "integer"}, variable}}
	case reflect.Float64:
		return object{"anyOf": []any{object{"type": "number"}, variable}}
	}
	return object{} // any
}

func fieldCount(t reflect.Type) (n int) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("yaml") != "" {
			n++
		}
	}
	return n
}

// ref is the schema of a struct, which stands among the definitions once.
func (s *schemas) ref(t reflect.Type, text bool) object {
	name := t.String()
	ref := object{"$ref": "#/$defs/" + name}
	if _, there := s.defs[name]; there {
		return ref
	}
	properties, required := object{}, []string{}
	def := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
	if text {
		def["type"] = []string{"object", "string", "null"}
	}
	s.defs[name] = def
	s.describe(def, name)
	for i := range t.NumField() {
		f := t.Field(i)
		yamlName, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if yamlName == "" {
			continue
		}
		p := s.of(f.Type)
		if _, isRef := p["$ref"]; isRef {
			p = object{"allOf": []any{p}}
		}
		s.describe(p, name+"."+f.Name)
		properties[yamlName] = p
		if !strings.Contains(options, "omitempty") {
			required = append(required, yamlName)
		}
	}
	if len(required) > 0 && name != "topology.Document" { // a file that is included has no name
		def["required"] = required
	}
	return ref
}

func (s *schemas) describe(def object, name string) {
	if text := s.comments[name]; text != "" {
		def["description"] = text
	}
}

// schema is that of documents, made of their types.
func schema(t *testing.T) []byte {
	s := &schemas{comments(t), object{}}
	s.of(reflect.TypeFor[topology.Document]())
	root := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "EchoMQ topology", "$ref": "#/$defs/topology.Document", "$defs": s.defs,
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	require.NoError(t, e.Encode(root))
	return b.Bytes()
}

// TestSchema: the published schema is that of the types (go test ./topology -run TestSchema -update writes it), it takes what Load
// takes, and refuses what no editor should let pass.
func TestSchema(t *testing.T) {
	made := schema(t)
	if *update {
		require.NoError(t, os.WriteFile(schemaFile, made, 0o644))
	}
	published, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.Equal(t, string(made), string(published), "run go test ./topology -run TestSchema -update")

	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(published))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("topology.json", parsed))
	compiled, err := c.Compile("topology.json")
	require.NoError(t, err)
	validate := func(text string) error {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(text), &v))
		text2, err := json.Marshal(v)
		require.NoError(t, err)
		v, err = jsonschema.UnmarshalJSON(bytes.NewReader(text2))
		require.NoError(t, err)
		return compiled.Validate(v)
	}
	good := map[string]string{"quakes": quakes, "shop": shop, "guarded": guarded, "variables": "topology: ${A}\nscopes: {s: {partitions: '${N:-3}', streams: {a: }}}\n"}
	examples, err := filepath.Glob("../examples/*/*.yaml")
	require.NoError(t, err)
	for _, name := range examples {
		if strings.HasSuffix(name, "_test.yaml") {
			continue // cases, not a document
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		good[name] = string(text)
	}
	for _, name := range slices.Sorted(maps.Keys(good)) {
		require.NoError(t, validate(good[name]), name)
	}
	for _, text := range []string{
		"scopez: {}\n", "topology: [a]\n", "scopes: {s: {partitions: many}}\n", "scopes: {s: {streams: {a: {keyd: true}}}}\n", "stages: {a: {frm: x}}\n",
		"stages: {a: {from: a/b, window: {tumbling: 1h, values: {n: {max: [1]}}}}}\n", "queues: {q: {lanes: [a]}}\n", "queues: {q: {schedules: {s: {every: 1h}}}}\n",
	} {
		require.Error(t, validate(text), text)
	}
}

// TestFieldsAreDescribed: an editor says of each field what it is for.
func TestFieldsAreDescribed(t *testing.T) {
	s := &schemas{comments(t), object{}}
	s.of(reflect.TypeFor[topology.Document]())
	for name, def := range s.defs {
		require.NotEmpty(t, def.(object)["description"], name)
		for field, p := range def.(object)["properties"].(object) {
			if strings.HasPrefix(name, "topology.") {
				require.NotEmpty(t, p.(object)["description"], "%s: %s", name, field)
			}
		}
	}
}
