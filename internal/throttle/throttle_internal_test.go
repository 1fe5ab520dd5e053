package throttle

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		th := New(slog.New(slog.NewTextHandler(&out, nil)))
		for range 1000 {
			th.Warn("call failed", slog.Any("err", errors.New("no route")))
		}
		th.Warn("something else")
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
		time.Sleep(logEvery)
		th.Warn("call failed", slog.Any("err", errors.New("no route")))
		require.Contains(t, out.String(), "held_back=999")
		require.Equal(t, 3, strings.Count(out.String(), "\n"))
	})
}
