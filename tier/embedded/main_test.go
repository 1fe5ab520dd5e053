package embedded_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(userDirEnv); dir != "" {
		os.Exit(userProcess(dir))
	}
	if dir := os.Getenv(parentDirEnv); dir != "" {
		os.Exit(parentProcess(dir))
	}
	goleak.VerifyTestMain(m)
}

// limit bounds what can only take long when it hangs.
const limit = 20 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// dial returns a client of the server at url.
func dial(t *testing.T, url string) rueidis.Client {
	c, err := connect(url)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func connect(url string) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	opt.ForceSingleClient, opt.DisableCache, opt.PipelineMultiplex = true, true, -1
	return rueidis.NewClient(opt)
}

func do(t *testing.T, c rueidis.Client, args ...string) rueidis.RedisResult {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	r := c.Do(ctx, c.B().Arbitrary(args...).Build())
	require.NoError(t, r.Error(), args)
	return r
}

// gone waits until a process is gone, or a zombie of someone else's.
func gone(t *testing.T, pid int) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	ctx := within(t)
	for alive(pid) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Fail(t, "process is still there", "pid %d", pid)
		}
	}
}
