package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

func TestMain(m *testing.M) { tiertest.Main(m) }

func TestOrders(t *testing.T) {
	server := tiertest.Private(t, tiertest.Valkey)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := captured(t, func() { require.NoError(t, run(ctx, server.URL())) })
	require.Equal(t, 3, len(regexp.MustCompile(`(?m)^placed ORD\w{11}$`).FindAllString(out, -1)), out)
	require.Equal(t, 2, strings.Count(out, " to ann: "), out)
	require.Contains(t, out, " to ann: 99.00\n")
	require.Contains(t, out, " to bob: 3.20\n")
}

// TestREADMEHasTheProgram keeps what README shows the same as what is tested here.
func TestREADMEHasTheProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	_, body, found := strings.Cut(string(program), "// place appends")
	require.True(t, found)
	require.Contains(t, string(readme), "```go\n// place appends"+body+"```\n")
}

func captured(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	done := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		done <- string(b)
	}()
	f()
	require.NoError(t, w.Close())
	return <-done
}
