package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of what is read, so that a document of somebody else takes neither all memory nor all day.
const (
	maxFile  = 4 << 20 // bytes
	maxFiles = 64
	maxNodes = 500_000 // values, an alias with all that it stands for
	maxDepth = 64
)

// LoadOptions say how a document is read. The zero value is what a user of the program has.
type LoadOptions struct {
	// Lookup finds a variable of the environment. Default os.LookupEnv.
	Lookup func(name string) (value string, set bool)
	// ReadFile reads a file that is included, or the document. Default os.ReadFile, up to 4 MiB.
	ReadFile func(name string) ([]byte, error)
}

func (o *LoadOptions) setDefaults() {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.ReadFile == nil {
		o.ReadFile = readFile
	}
}

// Load reads a document with all that it includes, and checks it. Relative paths of includes are those of the file that
// includes.
//
// The error is Problems, all that is wrong; or that of reading the first file.
func Load(path string, opts LoadOptions) (*Document, error) {
	opts.setDefaults()
	text, err := opts.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc := &Document{}
	d := &decoder{options: opts, places: map[string]place{}, document: doc, secrets: secrets{}}
	d.file(path, text, nil)
	doc.places = d.places
	if !d.broken {
		unread := d.problems
		for _, p := range doc.check() {
			if slices.ContainsFunc(unread, p.follows) {
				continue
			}
			at := doc.find(p.Path)
			p.Position = at.at(p.line, p.column)
			p.What, p.Do = d.secrets.hide(p.What, at.replaced), d.secrets.hide(p.Do, at.replaced)
			d.problems = append(d.problems, p)
		}
	}
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("has more than %d bytes, which is the most that a document may have", maxFile)}
	}
	return text, err
}

var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): `)

// parse turns to a file, and is the value that it has; nil: it has none, which is told.
func (d *decoder) parse(name string, text []byte) *yaml.Node {
	source := &source{name: name, lines: bytes.Split(text, []byte("\n"))}
	refuse := func(line int, do, format string, args ...any) {
		d.problems = append(d.problems, &Problem{Position: Position{name, line, 1}, What: fmt.Sprintf(format, args...), Do: do})
	}
	if d.files++; d.files > maxFiles {
		refuse(1, "put several into one", "more than %d files", maxFiles)
		return nil
	}
	var root, more yaml.Node
	reader := yaml.NewDecoder(bytes.NewReader(text))
	err := reader.Decode(&root)
	if err == nil && reader.Decode(&more) == nil {
		refuse(more.Line, "write one in each file, and include: it", "a second document in one file")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		line, what := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if m := syntaxLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
			what = strings.TrimPrefix(err.Error(), m[0])
		}
		d.broken = true
		refuse(line, "look at indents, quotes and brackets around it; inside { } a ${VARIABLE} needs quotes", "it is not YAML: %s", what)
		return nil
	}
	if root.Kind == 0 || len(root.Content) == 0 {
		d.broken = true
		refuse(1, "write what the topology is called, as in topology: shop", "the file is empty")
		return nil
	}
	d.source, d.raw = source, map[*yaml.Node]string{}
	d.environment(root.Content[0], 0)
	return root.Content[0]
}

// file reads a file into the document; within are those that include it.
func (d *decoder) file(name string, text []byte, within []string) {
	root := d.parse(name, text)
	if root == nil {
		return
	}
	d.into(root)
	includes := d.document.Include
	d.document.Include = nil
	delete(d.places, "include")
	positions := make([]Position, len(includes))
	for i := range includes {
		at := fmt.Sprintf("include.%d", i)
		positions[i] = d.places[at].at(0, 0)
		delete(d.places, at)
	}
	for i, include := range includes {
		d.include(include, positions[i], append(within, name))
	}
}

// include reads a file that another names.
func (d *decoder) include(name string, at Position, within []string) {
	refuse := func(do, format string, args ...any) {
		d.problems = append(d.problems, &Problem{Position: at, Path: "include", What: d.secrets.hide(fmt.Sprintf(format, args...), true), Do: do})
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(within[len(within)-1]), name)
	}
	if slices.ContainsFunc(within, func(w string) bool { return filepath.Clean(w) == filepath.Clean(path) }) {
		refuse("leave one of them out", "%q includes what includes it", name)
		return
	}
	text, err := d.options.ReadFile(path)
	var broken *fs.PathError
	switch {
	case errors.As(err, &broken):
		refuse("write a path from the directory of this file", "%q: %v", name, broken.Err)
	case err != nil:
		refuse("write a path from the directory of this file", "%q cannot be read", name)
	default:
		d.file(path, text, within)
	}
}
