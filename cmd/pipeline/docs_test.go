package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var block = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// commands are the blocks of a document that run the program, without prompts.
func commands(document string) []string {
	var all []string
	for _, b := range block.FindAllStringSubmatch(document, -1) {
		text := regexp.MustCompile(`(?m)^\$ `).ReplaceAllString(b[1], "")
		if regexp.MustCompile(`(?m)(^|\| |\$\()(bin/)?pipeline `).MatchString(text) {
			all = append(all, text)
		}
	}
	return all
}

// Every command in the documents works, in the order in which they stand there, on
// the embedded server.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"../../docs/cli.md", "../../docs/benchmarks.md", "../../docs/capacity.md", "../../docs/topology.md", "../../README.md", "../../examples/orderflow/README.md", "../../examples/logs/README.md"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := alone(t)
			require.NoError(t, os.Symlink(filepath.Dir(binary), filepath.Join(p.dir, "bin")))
			examples, err := filepath.Abs("../../examples")
			require.NoError(t, err)
			require.NoError(t, os.Symlink(examples, filepath.Join(p.dir, "examples")))
			for _, c := range commands(string(text)) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				cmd := exec.CommandContext(ctx, "sh", "-euc", c)
				cmd.Dir, cmd.Env = p.dir, p.env
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s\n%s", c, out)
			}
		})
	}
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(commands(string(text))), 9)
}

// TestPictures: those of the READMEs are what the commands beside them draw.
func TestPictures(t *testing.T) {
	t.Parallel()
	p := alone(t)
	for readme, name := range map[string]string{
		"../../README.md": "../../examples/earthquakes/quakes", "../../examples/orderflow/README.md": "../../examples/orderflow/orders",
		"../../examples/logs/README.md": "../../examples/logs/logs",
	} {
		text, err := os.ReadFile(readme)
		require.NoError(t, err)
		doc, err := filepath.Abs(name + ".yaml")
		require.NoError(t, err)
		require.Contains(t, string(text), "```mermaid\n"+p.ok("topology", "graph", doc, "--format", "mermaid").out+"```\n")
		svg, err := os.ReadFile(name + ".svg")
		require.NoError(t, err)
		require.Equal(t, string(svg), p.ok("topology", "graph", doc, "--format", "svg").out)
	}
}

// The document names every flag and every command.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	p := alone(t)
	for _, c := range []string{
		"demo", "server", "produce", "consume", "tail", "range", "replay", "import", "hydrate", "get", "streams", "groups", "check", "bench", "capacity", "version",
		"stream rm", "stream reset", "group reset", "group pause", "group resume", "group delete", "scope partition", "dead ls", "dead show", "dead redrive", "dead drop", "doctor", "projections", "projections switch", "projections reset", "projections drop",
		"retention ls", "retention set", "retention rm", "retention plan", "retention run", "archive run", "archive ls", "archive verify", "archive restore",
		"queues", "queues ls", "queues show", "queues pause", "queues resume", "queues set", "queues history", "queues drain", "queues obliterate", "work", "lanes", "lanes ls", "lanes set", "lanes pause", "lanes resume", "lanes drain", "lanes move", "jobs enqueue", "jobs flow", "jobs ls", "jobs show", "jobs retry", "jobs cancel", "jobs rm", "cron ls", "cron add", "cron rm", "cron run",
		"topology validate", "topology plan", "topology apply", "topology drift", "topology destroy", "topology run", "topology graph", "topology acl", "topology test",
	} {
		require.Contains(t, string(text), "pipeline "+c)
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(p.ok(append(strings.Fields(c), "--help")...).out, -1) {
			if flag != "--help" && flag != "--lines" {
				require.Contains(t, string(text), flag, c)
			}
		}
	}
}
