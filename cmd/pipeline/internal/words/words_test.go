package words_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
