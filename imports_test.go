package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages of this module and who may import whom, as docs/architecture.md
// tells it.

const module = "github.com/echomq/pipeline"

// layers are the packages, lowest first. A package, with what lies below its
// directory, may import what stands in a lower layer. Those of one layer do not
// know each other. examples are programs as users write them.
var layers = [][]string{
	{"codec", "tier/embedded", "internal"},
	{"tier"},
	{"tier/stream", "tier/queue"},
	{"tier/doctor"},
	{"consumer"},
	{"retention", "bridge"},
	{"topology"},
	{"benchmarks"},
	{"cmd/pipeline", "examples", "docs/examples"},
}

// testSupport is imported by tests only, and so stands in no layer.
const testSupport = "tier/tiertest"

// owned are modules that only the packages below one directory import: whoever
// else could, would get around what that directory promises.
var owned = []struct{ module, owner string }{
	{"github.com/redis/rueidis", "tier"},
	{"github.com/ThreeDotsLabs/watermill", "bridge"},
	{"github.com/netresearch/go-cron", "tier/queue/schedule"},
	{"github.com/expr-lang/expr", "topology/stage"},
	{"go.yaml.in/yaml/v3", "topology"},
}

// pkg is what go list says about a package.
type pkg struct {
	ImportPath string
	Imports    []string
}

// below says whether a path is dir or lies below it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// place finds the entry of layers that a package belongs to: the longest.
func place(path string) (layer int, entry string) {
	for i, entries := range layers {
		for _, e := range entries {
			if below(path, e) && len(e) > len(entry) {
				layer, entry = i, e
			}
		}
	}
	return layer, entry
}

// violations are the imports, and the packages, that break the order.
func violations(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		from, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours { // the module's root has tests only
			continue
		}
		fromLayer, fromEntry := place(from)
		if fromEntry == "" {
			found = append(found, fmt.Sprintf("%s stands in no layer: say in imports_test.go where it belongs", from))
			continue
		}
		for _, imported := range p.Imports {
			for _, o := range owned {
				if below(imported, o.module) && !below(from, o.owner) {
					found = append(found, fmt.Sprintf("%s imports %s, which only %s may", from, imported, o.owner))
				}
			}
			to, ours := strings.CutPrefix(imported, module+"/")
			if !ours || below(from, testSupport) {
				continue
			}
			toLayer, toEntry := place(to)
			switch {
			case below(to, testSupport):
				found = append(found, fmt.Sprintf("%s imports %s, which only tests may", from, to))
			case toEntry != fromEntry && toLayer >= fromLayer:
				found = append(found, fmt.Sprintf("%s imports %s, which is not below it", from, to))
			}
		}
	}
	return found
}

func TestImportsGoDownwards(t *testing.T) {
	var pkgs []pkg
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		require.NoError(t, err, string(exit.Stderr))
	}
	require.NoError(t, err)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		pkgs = append(pkgs, p)
	}
	require.True(t, slices.ContainsFunc(pkgs, func(p pkg) bool { return p.ImportPath == module+"/codec" }), "go list has listed nothing")
	require.Empty(t, violations(pkgs))
}

// TestViolations breaks each rule once.
func TestViolations(t *testing.T) {
	tests := []struct{ name, from, to, want string }{
		{"down", "tier", "codec", ""},
		{"down by several layers", "cmd/pipeline", "codec", ""},
		{"the program starts servers", "cmd/pipeline", "tier/embedded", ""},
		{"inside an entry", "consumer", "consumer/internal/window", ""},
		{"test support goes where it has to", "tier/tiertest", "tier/stream", ""},
		{"commands in the tier", "tier/stream", "!github.com/redis/rueidis", ""},
		{"the bridge", "bridge", "!github.com/ThreeDotsLabs/watermill/message", ""},
		{"something else", "codec", "!github.com/redis/rueidisaside", ""},
		{"up", "codec", "tier", "codec imports tier, which is not below it"},
		{"up from the tier", "tier", "tier/stream", "not below it"},
		{"across", "tier/stream", "tier/queue", "not below it"},
		{"the program measures", "cmd/pipeline", "benchmarks/bench", ""},
		{"across at the top", "examples", "cmd/pipeline", "not below it"},
		{"what is measured by the program", "benchmarks", "cmd/pipeline", "not below it"},
		{"up from below an entry", "tier/internal/x", "consumer", "not below it"},
		{"the server is nobody's layer", "tier/embedded", "codec", "not below it"},
		{"test support in the product", "consumer", "tier/tiertest", "only tests may"},
		{"commands from elsewhere", "consumer", "!github.com/redis/rueidis", "only tier may"},
		{"a part of the client's module", "cmd/pipeline", "!github.com/redis/rueidis/rueidiscompat", "only tier may"},
		{"the bridge's module elsewhere", "topology", "!github.com/ThreeDotsLabs/watermill", "only bridge may"},
		{"a package that nobody placed", "util", "codec", "stands in no layer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to, foreign := strings.CutPrefix(tt.to, "!")
			if !foreign {
				to = module + "/" + to
			}
			got := violations([]pkg{{ImportPath: module + "/" + tt.from, Imports: []string{"fmt", to}}})
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			require.Contains(t, got[0], tt.want)
		})
	}
}
