package stage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/topology/stage"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		name string
		cfg  stage.Config
		want []string // of the problems, in order
	}{
		{"filter", stage.Config{From: "q/raw", To: "q/big", Filter: "data.mag >= 5"}, nil},
		{"nothing", stage.Config{}, []string{"from: missing: a stream", "no verb", "to: missing"}},
		{"two verbs", stage.Config{From: "q/raw", To: "q/big", Filter: "true", Func: "f"}, []string{"verbs [filter func]"}},
		{"another scope", stage.Config{From: "q/raw", To: "r/big", Filter: "true"}, []string{"to: r/big is not in scope q"}},
		{"an unknown name, with its place", stage.Config{From: "q/raw", To: "q/big", Filter: "data.mag >= mag"}, []string{"filter at 1:13: unknown name mag: an expression sees id, key, type, time, headers and data: write data.mag for a field of it, 'mag' for the text"}},
		{"a text without its quotes", stage.Config{From: "q/raw", To: "q/big", Map: &stage.Map{Type: "order.placed"}}, []string{"map.type at 1:1: unknown name order: an expression sees id, key, type, time, headers and data: write data.order for a field of it, 'order.placed' for the text"}},
		{"a type, with its place", stage.Config{From: "q/raw", To: "q/big", Filter: "true and\n key + 1 > 2"}, []string{"filter at 2:6: invalid operation: + (mismatched types string and int)"}},
		{"not a condition", stage.Config{From: "q/raw", To: "q/big", Filter: "key"}, []string{"filter: expected bool, but got string"}},
		{"a field of a map", stage.Config{From: "q/raw", To: "q/big", Map: &stage.Map{Headers: map[string]stage.Expr{"h": "1 +"}}}, []string{"map.headers.h at 1:3: it ends where more has to come"}},
		{"a way that takes all before others", stage.Config{From: "q/raw", Route: []stage.Route{{To: "q/a"}, {When: "true", To: "q/b"}}}, []string{"route.0: no when"}},
		{"a window", stage.Config{From: "q/raw", To: "q/hours", Window: &stage.Window{
			Tumbling: stage.Duration(3.6e12), Time: "data.time", Values: map[string]stage.Aggregate{"n": {Count: true}, "top": {Max: "data.mag"}},
		}}, nil},
		{"wrong windows", stage.Config{From: "q/raw", To: "q/hours", Window: &stage.Window{
			Tumbling: 1, Calendar: "day", Zone: "Mars/Base", Values: map[string]stage.Aggregate{"key": {Count: true}, "x": {}},
		}}, []string{
			"window: kinds of windows [tumbling calendar]", "window.tumbling: 1ns: want 1ms", `window.zone: "Mars/Base" is not known`,
			"window.values.key: a result has", "window.values.x: has []: want exactly one",
		}},
		{"hops", stage.Config{From: "q/raw", To: "q/hours", Window: &stage.Window{
			Hopping: &stage.Hopping{Size: stage.Duration(3.6e12), Every: stage.Duration(1e9)}, Values: map[string]stage.Aggregate{"n": {Count: true}},
		}}, []string{"window.hopping.every: 1s: each message would count in more than 64 windows; want 56.25s"}},
		{"a hook with a password", stage.Config{From: "q/raw", Webhook: &stage.Webhook{URL: "https://a:b@example.org"}}, []string{"webhook.url: has a password"}},
		{"a child", stage.Config{From: "q/raw", Exec: &stage.Exec{Command: []string{"cat"}}}, nil},
		{"a wrong child", stage.Config{From: "q/raw", Exec: &stage.Exec{Env: map[string]string{"A=B": ""}, Timeout: stage.Duration(7.2e12), InFlight: 2000, MaxLine: 1}}, []string{
			"exec.command: missing", `exec.env: "A=B" is no name`, "exec.timeout: 2h: want 1ms to 1h", "exec.in_flight: 2000: want 1 to 1024", "exec.max_line: 1: want 1KiB to 16MiB",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := tt.cfg.Check()
			require.Len(t, found, len(tt.want), "%v", found)
			for i, want := range tt.want {
				require.ErrorContains(t, found[i], want)
			}
			require.Equal(t, len(tt.want) == 0, found.Err() == nil)
		})
	}
}

func TestCheckOfSourcesAndSinks(t *testing.T) {
	require.Empty(t, (&stage.SourceConfig{To: "q/raw", File: &stage.File{Path: "a.csv"}, Key: "data.net"}).Check())
	require.Empty(t, (&stage.SinkConfig{From: "q/raw", File: &stage.File{Path: "a.jsonl"}}).Check())
	require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw"}).Check(), "has []: want exactly one of [file http stdin watermill]")
	require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw", File: &stage.File{Path: "a.bin"}}).Check(), `file.format: "a.bin" does not tell it`)
	require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw", HTTP: &stage.HTTP{Listen: "0.0.0.0:80"}}).Check(), "not a loopback address")
	require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw", HTTP: &stage.HTTP{Listen: "0.0.0.0:80", Public: true}}).Check(), "http.token: missing")
	require.ErrorContains(t, (&stage.SinkConfig{From: "q/raw", File: &stage.File{Path: "a.csv"}}).Check(), "file.format")
	for _, path := range []string{"/", "/events", "/in/events/", "/~a.b-c_d", "/..."} {
		require.Empty(t, (&stage.SourceConfig{To: "q/raw", HTTP: &stage.HTTP{Listen: "127.0.0.1:0", Path: path}}).Check(), path)
	}
	for _, path := range []string{"events", "//", "/a//b", "/a/../b", "/.", "/{", "/{x}", "/a b", "/a?b", "/%zz", "/a\n"} { // many of which a server panics at
		require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw", HTTP: &stage.HTTP{Listen: "127.0.0.1:0", Path: path}}).Check(), "http.path: ", path)
	}
	for _, listen := range []string{"127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:http"} {
		require.ErrorContains(t, (&stage.SourceConfig{To: "q/raw", HTTP: &stage.HTTP{Listen: listen}}).Check(), "http.listen: want host:port", listen)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{"250ms": "250ms", "1h30m": "1h30m", "7d": "7d", "1d12h": "36h", "90s": "1m30s", "0s": "0s", "60m": "1h"} {
		var d stage.Duration
		require.NoError(t, d.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, d.String())
	}
	for _, text := range []string{"", "d", "-1h", "1h7d", "99999d", "7", "-1d"} {
		require.ErrorContains(t, new(stage.Duration).UnmarshalText([]byte(text)), "no duration", text)
	}
}
