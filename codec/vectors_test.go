package codec_test

import (
	"encoding/hex"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/codec"
)

// jsonMessage is a message in FORMAT.md and in testdata/recordings. Data is
// hexadecimal; a string that begins with "hex:" is, too.
type jsonMessage struct {
	Type    string      `json:"type"`
	Key     string      `json:"key"`
	Headers [][2]string `json:"headers"`
	Data    string      `json:"data"`
	Format  string      `json:"format"`
}

func (j jsonMessage) message(t require.TestingT) codec.Message {
	m := codec.Message{Type: plainText(t, j.Type), Key: plainText(t, j.Key), Data: unhex(t, j.Data)}
	for _, h := range j.Headers {
		m.Headers = append(m.Headers, codec.Header{Key: plainText(t, h[0]), Value: plainText(t, h[1])})
	}
	switch j.Format {
	case "bytes":
	case "msgpack":
		m.Format = codec.FormatMsgpack
	default:
		require.Fail(t, "format", j.Format)
	}
	return m
}

func plainText(t require.TestingT, s string) string {
	if h, ok := strings.CutPrefix(s, "hex:"); ok {
		return string(unhex(t, h))
	}
	return s
}

func unhex(t require.TestingT, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}
