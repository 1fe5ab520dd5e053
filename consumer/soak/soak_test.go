package soak_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestEachFault lets each fault happen once, one after another, while two writers and a group of three are at work. They go
// on by themselves; what was acknowledged and still exists was handled; ids are unique and in order.
func TestEachFault(t *testing.T) {
	for _, kind := range []tiertest.Kind{tiertest.Valkey, tiertest.Redis} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes")
			c := startCrew(t, s.URL())
			for _, f := range append(ofOneServer(s), ofProcesses...) {
				pause(time.Second)
				t.Log(f.name)
				c.suffer(f)
			}
			pause(time.Second)
			c.rest()
		})
	}
}

// soakEnv is how long TestSoak runs, as in SOAK=10m; seedEnv repeats the order of faults that an earlier run had.
const (
	soakEnv = "SOAK"
	seedEnv = "SOAK_SEED"
)

// TestSoak lets faults happen at random.
func TestSoak(t *testing.T) {
	t.Parallel()
	long := 20 * time.Second
	if text := os.Getenv(soakEnv); text != "" {
		var err error
		long, err = time.ParseDuration(text)
		require.NoError(t, err, soakEnv)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, seedEnv)
	}
	t.Logf("%s=%d", seedEnv, seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	s := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes")
	c := startCrew(t, s.URL())
	faults := append(ofOneServer(s), ofProcesses...)
	for end := time.Now().Add(long); time.Now().Before(end); {
		pause(time.Duration(dice.Int64N(int64(3 * time.Second))))
		f := faults[dice.IntN(len(faults))]
		c.suffer(f)
		t.Logf("%-45s %s", f.name, c.book.sum())
	}
	pause(time.Second)
	c.rest()
}
