package words_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomq/pipeline/cmd/pipeline/internal/words"
)

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want []string
		err  error
	}{
		{"nothing", "", nil, nil},
		{"spaces only", " \t\n", nil, nil},
		{"words", "jq  -r .id", []string{"jq", "-r", ".id"}, nil},
		{"single quotes", `sh -c 'cat > "$1"; echo \n' x`, []string{"sh", "-c", `cat > "$1"; echo \n`, "x"}, nil},
		{"double quotes", `a "b \"c\" \\ \n" d`, []string{"a", `b "c" \ \n`, "d"}, nil},
		{"slash", `a\ b \'c`, []string{"a b", "'c"}, nil},
		{"empty word", `a '' ""`, []string{"a", "", ""}, nil},
		{"joined", `a'b c'"d"e`, []string{"ab cde"}, nil},
		{"no shell", `echo $HOME * ; | > &`, []string{"echo", "$HOME", "*", ";", "|", ">", "&"}, nil},
		{"not UTF-8", "a\xff b", []string{"a\xff", "b"}, nil},
		{"open single", `a 'b`, nil, words.ErrQuote},
		{"open double", `a "b\"`, nil, words.ErrQuote},
		{"slash at the end", `a \`, nil, words.ErrSlash},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := words.Split(tc.in)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, got)
		})
	}
}

// TestJoin: Split and a shell take what Join makes apart into the same words.
func TestJoin(t *testing.T) {
	require.Equal(t, `pipeline replay a/b --exec 'jq -r .id' '' 'it'\''s' 'é'`, words.Join([]string{"pipeline", "replay", "a/b", "--exec", "jq -r .id", "", "it's", "é"}))
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.StringOf(rapid.RuneFrom([]rune(" \t\n'\"\\$`*;#~!azAZ09-é\u00a0\ufffd"))), 1, 4).Draw(t, "words")
		got, err := words.Split(words.Join(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	want := []string{"$HOME", "`id`", "a\\", "\"", "~", "!!", "#x", "\n", "'"}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+words.Join(want)).Output()
	require.NoError(t, err)
	require.Equal(t, strings.Join(want, "\x00")+"\x00", string(out))
}
