package node_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestReadByUserAndDatabase: what the URL says besides the address.
func TestReadByUserAndDatabase(t *testing.T) {
	s := tiertest.Private(t, tiertest.Valkey)
	e := newSite(t, s)
	_, err := e.writer(t, 1).AppendBatch(t.Context(), corners())
	require.NoError(t, err)
	user := e.raw.B().Arbitrary("ACL", "SETUSER", "reader", "on", ">p@ss/word", "~*", "+@read", "+select").Build()
	require.NoError(t, e.raw.Do(t.Context(), user).Error())
	at := strings.TrimPrefix(tiertest.NewProxy(t, s).URL(), "valkey://")

	want := linesOf(e.records(t))
	require.Equal(t, want, parse(t, runOK(t, "redis://reader:p%40ss%2Fword@"+at+"/0", "", "read.mjs", e.address)))
	_, errs, err := run(t, "redis://reader:wrong@"+at, "", "read.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "WRONGPASS")
	_, errs, err = run(t, "redis://reader:p%40ss%2Fword@"+at+"/1", "", "read.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "nobody has declared the stream")
	_, errs, err = run(t, "redis://reader:p%40ss%2Fword@"+at, "{}\n", "write.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "NOPERM")
	require.NotContains(t, errs, "may or may not")
	_, errs, err = run(t, "http://"+at, "", "read.mjs", e.address)
	require.Error(t, err)
	require.Contains(t, errs, "the server URL starts with")
}

// TestHelp: --help prints the usage, without a server.
func TestHelp(t *testing.T) {
	for _, program := range []string{"read.mjs", "write.mjs"} {
		require.Regexp(t, `^usage: node `+program+` \[--url URL\] .*scope/stream.*\n$`, runOK(t, "redis://127.0.0.1:1", "", program, "--help"))
	}
}

// TestReadInPieces: replies arrive byte by byte.
func TestReadInPieces(t *testing.T) {
	s := tiertest.Shared(t, tiertest.Valkey)
	e := newSite(t, s)
	_, err := e.writer(t, 2).AppendBatch(t.Context(), corners()[:5])
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u, err := url.Parse(s.URL())
	require.NoError(t, err)

	var wg sync.WaitGroup
	wg.Go(func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.Dial("unix", u.Path)
		if err != nil {
			return
		}
		wg.Go(func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		})
		for r := bufio.NewReader(server); ; { // Go's connections do not wait for more to send
			b, err := r.ReadByte()
			if err != nil {
				return
			}
			if _, err := client.Write([]byte{b}); err != nil {
				return
			}
		}
	})
	got := runOK(t, "redis://"+l.Addr().String(), "", "read.mjs", "--page", "2", e.address)
	require.NoError(t, l.Close())
	wg.Wait()
	require.Equal(t, linesOf(e.records(t)), parse(t, got))
}

// TestReadSaysThatTheLogWasTrimmed: it is never silently short.
func TestReadSaysThatTheLogWasTrimmed(t *testing.T) {
	e := newSite(t, tiertest.Shared(t, tiertest.Valkey))
	e.large(t)
	for _, more := range []bool{true, false} {
		cmd := program(t, e.server.URL(), "read.mjs", "--page", "1", e.address)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		out := bufio.NewReader(stdout)
		_, err = out.ReadBytes('\n') // it prints the second or the third now
		require.NoError(t, err)
		require.NoError(t, e.raw.Do(t.Context(), e.raw.B().Xtrim().Key(e.key).Maxlen().Threshold("0").Build()).Error())
		if more {
			e.large(t)
		}
		_, err = io.Copy(io.Discard, out)
		require.NoError(t, err)
		require.Error(t, cmd.Wait())
		require.Contains(t, errs.String(), "the log was trimmed during the read")
	}
}
