package words_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/cmd/pipeline/internal/words"
)

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "a b", `"a b" c`, `'`, `a\\`, "\x00", `"\"`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := words.Split(s)
		n := 0
		for _, w := range list {
			n += len(w)
		}
		require.LessOrEqual(t, n, len(s), "%v", err)
	})
}
