package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestREADME runs each command of README.md, in the order in which they stand there.
func TestREADME(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	nodePath(t)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	for _, name := range []string{"docs", "codec"} {
		require.NoError(t, os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "pipeline"), "./cmd/pipeline")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	var outs []string
	for _, b := range blocks {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b[1])
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PIPELINE_URL="+s.URL())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", b[1], out)
		outs = append(outs, string(out))
	}
	require.Len(t, outs, 4)
	example := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindStringSubmatch(string(readme))[1]
	same := regexp.MustCompile(`"id":"\w+","position":"[\d-]+"`)
	require.Contains(t, same.ReplaceAllString(outs[0], ""), same.ReplaceAllString(example, ""))
	require.Equal(t, 2, strings.Count(outs[0], `"type":"orders"`))
	require.Len(t, regexp.MustCompile(`(?m)^ORD\w{11}$`).FindAllString(outs[1], -1), 3)
	require.Contains(t, outs[1], "cyd")
	require.Equal(t, 2, strings.Count(outs[1], "order.paid"))
	_, group, _ := strings.Cut(outs[2], "\nORD")
	require.Equal(t, 5, strings.Count(group, `"position"`), outs[2])
	require.Contains(t, outs[3], " vectors, 0 failed")
}
