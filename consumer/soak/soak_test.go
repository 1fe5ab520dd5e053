package soak_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestEachFault lets each fault happen once, one after another, while two writers and a group of three are at work. They go
// on by themselves; what was acknowledged and still exists was handled; ids are unique and in order.
func TestEachFault(t *testing.T) {
	for _, kind := range kinds(tiertest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := tiertest.Private(t, kind, "--appendonly", "yes")
			proxy := tiertest.NewProxy(t, s)
			c := startCrew(t, proxy.URL())
			for _, f := range slices.Concat(ofOneServer(s), ofProcesses, throughAProxy(proxy), ofTheGroup) {
				pause(time.Second)
				t.Log(f.name)
				c.suffer(f)
			}
			pause(time.Second)
			c.rest()
		})
	}
}

// TestEachFaultOfACluster is the same on three masters with a replica each.
func TestEachFaultOfACluster(t *testing.T) {
	for _, kind := range kinds(tiertest.Redis) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			cl := tiertest.NewCluster(t, kind)
			c := startCrew(t, cl.URL())
			for _, f := range ofACluster(cl) {
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

// kinds are those of the faults one by one: one of them, or both where SOAK is set.
func kinds(one tiertest.Kind) []tiertest.Kind {
	if os.Getenv(soakEnv) == "" {
		return []tiertest.Kind{one}
	}
	return []tiertest.Kind{tiertest.Valkey, tiertest.Redis}
}

// TestSoak lets faults happen at random: on one server, and on a cluster.
func TestSoak(t *testing.T) {
	long := setting(t, soakEnv, 20*time.Second, time.ParseDuration)
	seed := setting(t, seedEnv, time.Now().UnixNano(), func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })
	t.Logf("%s=%d", seedEnv, seed)
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		s := tiertest.Private(t, tiertest.Valkey, "--appendonly", "yes")
		proxy := tiertest.NewProxy(t, s)
		soak(startCrew(t, proxy.URL()), slices.Concat(ofOneServer(s), ofProcesses, throughAProxy(proxy), ofTheGroup), seed, long)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cl := tiertest.NewCluster(t, tiertest.Valkey)
		soak(startCrew(t, cl.URL()), slices.Concat(ofACluster(cl), ofProcesses, ofTheGroup), seed, long)
	})
}

func setting[T any](t *testing.T, name string, value T, parse func(string) (T, error)) T {
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	value, err := parse(text)
	require.NoError(t, err, name)
	return value
}

func soak(c *crew, faults []fault, seed int64, long time.Duration) {
	dice := rand.New(rand.NewPCG(uint64(seed), 0))
	for end := time.Now().Add(long); time.Now().Before(end); {
		pause(time.Duration(dice.Int64N(int64(3 * time.Second))))
		f := faults[dice.IntN(len(faults))]
		c.suffer(f)
		c.t.Logf("%-45s %s", f.name, c.book.sum())
	}
	pause(time.Second)
	c.rest()
}
