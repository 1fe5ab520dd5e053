package embedded_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/embedded"
)

// FuzzReadReply: a reply is read or refused; a length is believed only up to a bound (B86).
func FuzzReadReply(f *testing.F) {
	for _, s := range []string{"+OK\r\n", ":5\r\n", "-ERR x\r\n", "$2\r\nab\r\n", "$-1\r\n", "$9223372036854775807\r\n", "$99999999999\r\n", "*1\r\n", "\r\n", "", "$"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := embedded.ReadReply(s)
		if err == nil {
			require.Contains(t, s, text)
		}
	})
}
