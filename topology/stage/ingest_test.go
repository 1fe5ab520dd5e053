package stage_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
	"github.com/echomq/pipeline/topology/stage"
)

// TestIngest: what a client may send is appended before it is answered, and nothing of a request that is refused; one that never ends
// its body is let go, and more at a time than there is room for are told to come again.
func TestIngest(t *testing.T) {
	t.Parallel()
	b := newBench(t, tiertest.Shared(t, tiertest.Valkey))
	s, err := stage.NewSource(b.client, "web", stage.SourceConfig{To: b.address("in"), Key: "data.k", HTTP: &stage.HTTP{
		Listen: "127.0.0.1:0", Token: "secret", MaxBody: 1<<20 + 1000, InFlight: 1, Timeout: duration(2 * time.Second),
	}}, stage.Options{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Ready()
	at := s.(interface{ Addr() net.Addr }).Addr().String()
	post := func(token, kind, body string) (int, string) {
		r, err := http.NewRequest(http.MethodPost, "http://"+at+"/", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, answer.StatusCode == 202, answer.Header.Get("Content-Type") == "application/json")
		return answer.StatusCode, string(text)
	}
	for _, tt := range []struct {
		token, kind, body string
		code              int
		text              string
	}{
		{"secret", "application/json", `{"k": "a"}`, 202, `{"appended":1}`},
		{"secret", "application/x-ndjson", "{\"k\": \"b\"}\n\n{\"k\": 3}\n", 202, `{"appended":2}`},
		{"other", "application/json", `{"k": "x"}`, 401, "Bearer"},
		{"secret", "application/x-ndjson", "{\"k\": \"x\"}\n{", 400, "value 2 is no JSON"},
		{"secret", "application/x-ndjson", "{\"k\": \"x\"}\n{}", 400, "value 2: stage: key"},
		{"secret", "application/json", "", 400, "empty"},
		{"secret", "image/png", "x", 415, "want application/json"},
		{"secret", "text/csv", "a,b", 415, "want application/json"},
		{"secret", "application/json", `{"k": "a", "v": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "message, bytes"},
		{"secret", "application/json", `"` + strings.Repeat("x", 1<<20+1000) + `"`, 413, "too large"},
	} {
		code, text := post(tt.token, tt.kind, tt.body)
		require.Equal(t, tt.code, code, text)
		require.Contains(t, text, tt.text)
	}
	slow, err := net.Dial("tcp", at)
	require.NoError(t, err)
	defer slow.Close()
	_, err = fmt.Fprintf(slow, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	tiertest.Eventually(t, patience, func() (bool, string) {
		code, text := post("secret", "application/json", "{")
		return code == 429, text
	})
	tiertest.Eventually(t, patience, func() (bool, string) {
		code, text := post("secret", "application/json", "{")
		return code == 400, text
	})
	require.NoError(t, slow.SetReadDeadline(time.Now().Add(patience)))
	text, err := io.ReadAll(slow)
	require.NoError(t, err, "the server has closed the connection")
	require.Contains(t, string(text), "HTTP/1.1 408 ")
	require.Contains(t, string(text), "the body has not ended in time")
	stop()
	require.NoError(t, <-ended)
	require.Equal(t, []string{`a {"k": "a"}`, `b {"k": "b"}`, `3 {"k": 3}`}, data(b.all("in")))
}
