package main_test

import (
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/tier/tiertest"
)

// TestArchive: the earthquakes go into a store that speaks S3 and out of the stream, and are all there; what is damaged is told with
// its ids; the store's credentials are told nowhere.
func TestArchive(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("bucket"))
	cloud := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(cloud.Close)
	store := "s3://bucket/a?region=us-east-1&insecure=true&endpoint=" + strings.TrimPrefix(cloud.URL, "http://")
	p := onServer(t, tiertest.Private(t, tiertest.Valkey).URL())
	p.env = append(p.env, "AWS_ACCESS_KEY_ID=me", "AWS_SECRET_ACCESS_KEY=the-secret-word")

	quakes, err := os.ReadFile("internal/demo/testdata/earthquakes.csv")
	require.NoError(t, err)
	rows := strings.Count(string(quakes), "\n") - 1
	p.given(string(quakes)).ok("produce", "shop/quakes", "--format", "csv", "--key", "EventID")
	require.Contains(t, p.run("archive", "ls", "shop/quakes").errOut, "shop/quakes has no archive")
	set := p.ok("retention", "set", "shop/quakes", "--settled", "--exact", "--archive", store, "--segment-bytes", "64KiB")
	require.Contains(t, set.out, `"archive":"s3://bucket/a`)
	require.Empty(t, p.ok("archive", "ls", "shop/quakes").out)
	require.Contains(t, p.ok("retention", "run", "shop").out, `"went":0`)
	ran := p.ok("archive", "run", "shop", "--settle", "1ms")
	require.EqualValues(t, rows, object(t, ran)["messages"])
	require.Greater(t, object(t, ran)["segments"], 1.0)
	require.EqualValues(t, rows, object(t, p.ok("retention", "run", "shop"))["went"])
	require.Equal(t, strconv.Itoa(rows)+"\n", p.ok("range", "shop/quakes", "--count").out)
	id := object(t, result{out: p.ok("range", "shop/quakes", "--limit", "1").lines()[0]})["id"].(string)
	require.Contains(t, p.ok("get", id).out, id)

	listed := p.ok("archive", "ls", "shop/quakes", "--store", store)
	sum := 0.0
	for _, line := range listed.lines() {
		sum += object(t, result{out: line})["messages"].(float64)
	}
	require.EqualValues(t, rows, sum)
	require.Contains(t, p.ok("archive", "verify", "shop/quakes").errOut, "nothing is wrong")
	absent := p.run("archive", "verify", "shop/quakes", "--store", "file:///nowhere/at/all")
	require.Equal(t, 3, absent.code)
	require.Contains(t, absent.errOut, "the store has no archive of it")
	require.Contains(t, p.ok("archive", "ls", "shop/quakes", "--output", "text").out, object(t, result{out: listed.lines()[0]})["first"].(string))
	first := object(t, result{out: listed.lines()[0]})
	name := "a/" + first["object"].(string)
	_, err = backend.DeleteObject("bucket", name)
	require.NoError(t, err)
	bad := p.run("archive", "verify", "shop/quakes", "--output", "text")
	require.Equal(t, 1, bad.code)
	require.Contains(t, bad.errOut, first["first"].(string)+" to "+first["last"].(string)+": the object is not there")
	require.Contains(t, bad.errOut, "1 problem with the archive")

	cloud.Close()
	p.given("a\n").ok("produce", "shop/quakes")
	down := p.run("archive", "run", "shop", "--settle", "1ms")
	require.Equal(t, 1, down.code)
	require.NotContains(t, down.errOut+down.out+set.out, "the-secret-word")
	unread := p.run("range", "shop/quakes", "--count")
	require.Equal(t, 1, unread.code)
	require.NotContains(t, unread.errOut, "the-secret-word")
	p.ok("check", "shop")
}

// TestArchiveRestore: messages that a stream has lost are shown from a store that its policy names no more, and put back into it, with their ids.
func TestArchiveRestore(t *testing.T) {
	t.Parallel()
	p := onServer(t, tiertest.Private(t, tiertest.Valkey).URL())
	store := "file://" + t.TempDir()
	p.given("1\n2\n3\n").ok("produce", "shop/quakes")
	want := p.ok("range", "shop/quakes").out
	p.ok("retention", "set", "shop/quakes", "--settled", "--exact", "--archive", store)
	p.ok("archive", "run", "shop", "--settle", "1ms")
	p.ok("retention", "run", "shop")
	require.Contains(t, p.run("archive", "restore", "shop/quakes", "--yes").errOut, "the policy of shop/quakes, settled, would let go at once what is restored")
	require.Equal(t, want, p.ok("tail", "shop/quakes").out)
	p.ok("retention", "rm", "shop/quakes")
	require.Empty(t, p.ok("tail", "shop/quakes").out)
	p.given("4\n").ok("produce", "shop/quakes")
	newer := p.ok("range", "shop/quakes").out
	require.Equal(t, want+newer, p.ok("range", "shop/quakes", "--store", store).out)
	require.Equal(t, want[strings.Index(want, "\n")+1:]+newer, p.ok("tail", "shop/quakes", "-n", "3", "--store", store).out)
	require.Equal(t, newer, p.ok("tail", "shop/quakes", "-n", "1", "--store", "file:///nowhere").out, "the store is not asked for what the stream has")

	require.Equal(t, 3, p.run("archive", "restore", "shop/quakes", "--yes").code, "no archive")
	require.Equal(t, 2, p.run("archive", "restore", "shop/quakes").code, "nobody can be asked")
	require.Contains(t, p.ok("archive", "restore", "shop/quakes", "--store", store, "--yes", "--output", "text").errOut, "the archive has nothing above what the stream has")
	p.ok("stream", "reset", "shop/quakes", "--yes")
	counted := object(t, p.ok("archive", "restore", "shop/quakes", "--store", store, "--dry-run"))
	require.Equal(t, 3.0, counted["entries"])
	require.Equal(t, false, counted["restored"])
	require.Empty(t, p.ok("range", "shop/quakes").out)
	require.Equal(t, true, object(t, p.ok("archive", "restore", "shop/quakes", "--store", store, "--yes"))["restored"])
	require.Equal(t, want, p.ok("range", "shop/quakes").out)
	p.ok("check", "shop")
}

// TestArchiveRestorePartitions: a server that has lost all gets a stream with partitions back, one after another, once the scope has them
// again; what would be in the way of that, or finds nothing, says what to do.
func TestArchiveRestorePartitions(t *testing.T) {
	t.Parallel()
	server := tiertest.Private(t, tiertest.Valkey)
	p := onServer(t, server.URL())
	store := "file://" + t.TempDir()
	p.ok("scope", "partition", "shop", "--count", "2")
	p.given("{\"k\":\"a\"}\n{\"k\":\"b\"}\n{\"k\":\"c\"}\n{\"k\":\"d\"}\n").ok("produce", "shop/orders", "--format", "json", "--key", "k")
	want := p.ok("range", "shop/orders").out
	p.ok("retention", "set", "shop/orders", "--settled", "--archive", store)
	p.ok("archive", "run", "shop", "--settle", "1ms")
	raw, err := tiertest.Raw(server)
	require.NoError(t, err)
	defer raw.Close()
	require.NoError(t, raw.Do(t.Context(), raw.B().Flushall().Build()).Error())

	restore := func(address string) result {
		return p.run("archive", "restore", address, "--store", store, "--yes")
	}
	whole := restore("shop/orders")
	require.Equal(t, 3, whole.code)
	require.Contains(t, whole.errOut, "the store has no archive of it")
	early := restore("shop/orders@1")
	require.Equal(t, 2, early.code)
	require.Contains(t, early.errOut, "'pipeline scope partition shop --count N'")
	p.ok("scope", "partition", "shop", "--count", "2")
	for _, address := range []string{"shop/orders@0", "shop/orders@1"} {
		require.Zero(t, restore(address).code)
	}
	require.Equal(t, want, p.ok("range", "shop/orders").out)
	p.given("{\"k\":\"a\"}\n").ok("produce", "shop/orders", "--format", "json", "--key", "k")
	require.Equal(t, "5\n", p.ok("range", "shop/orders", "--count").out)
	p.ok("check", "shop")
}
