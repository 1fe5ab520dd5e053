package tiertest_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// replies has one of each sort, one frame each.
var replies = []string{
	"+OK\r\n",
	"-ERR no\r\n",
	":-12\r\n",
	"$-1\r\n",
	"*-1\r\n",
	"$0\r\n\r\n",
	"$4\r\n\r\n\r\n\r\n",
	"*0\r\n",
	"*2\r\n*2\r\n$1\r\na\r\n*-1\r\n$-1\r\n",
	"_\r\n",
	"#t\r\n",
	",3.25\r\n",
	",inf\r\n",
	"(3492890328409238509324850943850943825024385\r\n",
	"!5\r\nERR x\r\n",
	"=7\r\ntxt:abc\r\n",
	"~2\r\n:1\r\n:2\r\n",
	"%2\r\n+a\r\n*1\r\n:1\r\n+b\r\n%0\r\n",
	"|1\r\n+ttl\r\n:3600\r\n*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n",
	">3\r\n+message\r\n+channel\r\n$1\r\nx\r\n",
}

func TestReplies(t *testing.T) {
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"at once":      func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
	} {
		t.Run(name, func(t *testing.T) {
			raw, pushes, err := tiertest.Replies(reader(strings.NewReader(strings.Join(replies, ""))))
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, 1, pushes)
			require.Len(t, raw, len(replies))
			for i, want := range replies {
				require.Equal(t, want, string(raw[i]))
			}
		})
	}
}

func TestCommands(t *testing.T) {
	big := strings.Repeat("x", 300_000)
	in := bytes.Join([][]byte{
		tiertest.Encode("ping"),
		tiertest.Encode("SET", "k\r\n", ""),
		tiertest.Encode("SET", "k", big),
		[]byte("*0\r\n"),
		tiertest.Encode("xadd", "s", "*", "f", "*1\r\n$4\r\nPING\r\n"),
	}, nil)
	raw, args, err := tiertest.Commands(iotest.HalfReader(bytes.NewReader(in)))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, in, bytes.Join(raw, nil))
	require.Equal(t, [][]string{
		{"PING"}, {"SET", "k\r\n", ""}, {"SET", "k", big}, nil, {"XADD", "s", "*", "f", "*1\r\n$4\r\nPING\r\n"},
	}, args)
}

func TestFramesRefuse(t *testing.T) {
	tests := []struct{ name, in string }{
		{"unknown kind", "@1\r\n"},
		{"no number", "$x\r\n"},
		{"a number below -1", "*-2\r\n"},
		{"a streamed string", "$?\r\n"},
		{"no carriage return", "+OK\n"},
		{"an empty line", "\r\n"},
		{"a negative map", "%-1\r\n"},
		{"cut short", "$5\r\nab"},
		{"longer than it is", "$1000000000\r\nab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw, _, err := tiertest.Replies(strings.NewReader(tt.in))
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			require.Empty(t, raw)
			_, _, err = tiertest.Commands(strings.NewReader(tt.in))
			require.Error(t, err)
		})
	}
}

// FuzzFrames: whatever comes, frames are the bytes as they came, in any chunks.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(strings.Join(replies, "")))
	for _, r := range replies {
		f.Add([]byte(r))
	}
	f.Add(tiertest.Encode("SET", "k", "v"))
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, _, err := tiertest.Replies(bytes.NewReader(in))
		require.Error(t, err)
		require.True(t, bytes.HasPrefix(in, bytes.Join(raw, nil)))
		again, _, _ := tiertest.Replies(iotest.OneByteReader(bytes.NewReader(in)))
		require.Equal(t, raw, again)

		raw, args, err := tiertest.Commands(bytes.NewReader(in))
		require.Error(t, err)
		require.Len(t, args, len(raw))
		require.True(t, bytes.HasPrefix(in, bytes.Join(raw, nil)))
	})
}
