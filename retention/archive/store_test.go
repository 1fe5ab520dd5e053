package archive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/retention/archive/s3"
)

// newS3 is a server that speaks S3, with a bucket.
func newS3(t testing.TB) (address string) {
	t.Setenv("AWS_ACCESS_KEY_ID", "me")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return "s3://bucket/some/prefix?region=us-east-1&insecure=true&endpoint=" + strings.TrimPrefix(server.URL, "http://")
}

// TestStores: what a Store promises, of each.
func TestStores(t *testing.T) {
	directory, err := archive.OpenDirectory("file://" + t.TempDir() + "/not/yet")
	require.NoError(t, err)
	bucket, err := s3.Open(newS3(t))
	require.NoError(t, err)
	for name, store := range map[string]archive.Store{"memory": &archive.Memory{}, "directory": directory, "s3": bucket} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			list, err := store.List(ctx, "a/")
			require.NoError(t, err)
			require.Empty(t, list)
			create := func(name, body string) error {
				return store.Create(ctx, name, strings.NewReader(body), int64(len(body)))
			}
			require.NoError(t, create("a/b=1/two", "0123456789"))
			require.NoError(t, create("a/b=1/one", "1"))
			require.NoError(t, create("a/b=10/three", "x"))
			require.ErrorIs(t, create("a/b=1/two", "other"), archive.ErrExists)
			read := func(name string, at int64, n int) (string, error) {
				p := make([]byte, n)
				got, err := store.ReadAt(ctx, name, p, at)
				return string(p[:got]), err
			}
			got, err := read("a/b=1/two", 2, 5)
			require.NoError(t, err)
			require.Equal(t, "23456", got)
			got, err = read("a/b=1/two", 7, 5)
			require.ErrorIs(t, err, io.EOF)
			require.Equal(t, "789", got)
			_, err = read("a/b=1/two", 10, 1)
			require.ErrorIs(t, err, io.EOF)
			_, err = read("a/none", 0, 1)
			require.ErrorIs(t, err, archive.ErrAbsent)
			list, err = store.List(ctx, "a/b=1/")
			require.NoError(t, err)
			require.Equal(t, []archive.Object{{Name: "a/b=1/one", Bytes: 1}, {Name: "a/b=1/two", Bytes: 10}}, list)
			list, err = store.List(ctx, "a/b=1/t")
			require.NoError(t, err)
			require.Len(t, list, 1)

			var made atomic.Int32
			var all sync.WaitGroup
			for i := range 8 { // of all at once, one
				all.Go(func() {
					body := bytes.Repeat([]byte{byte(i)}, 1<<20)
					switch err := store.Create(ctx, "a/race", bytes.NewReader(body), int64(len(body))); {
					case err == nil:
						made.Add(1)
					case !errors.Is(err, archive.ErrExists):
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 1, made.Load())
			require.NoError(t, store.Delete(ctx, "a/race"))
			require.NoError(t, store.Delete(ctx, "a/race"))
			_, err = read("a/race", 0, 1)
			require.ErrorIs(t, err, archive.ErrAbsent)
		})
	}
}

// TestStoreAddresses: what names no store is refused, and what is secret in it is not told.
func TestStoreAddresses(t *testing.T) {
	for _, address := range []string{"", "bucket", "s3://", "s3://me:word@bucket/a", "s3://bucket/a?word=secret", "gs://bucket"} {
		_, err := s3.Open(address)
		require.ErrorIs(t, err, archive.ErrStore, address)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "me:word")
	}
	for _, address := range []string{"", "/a", "file://host/a", "file:a", "file:///a?x=1", "s3://bucket"} {
		_, err := archive.OpenDirectory(address)
		require.ErrorIs(t, err, archive.ErrStore, address)
	}
	d, err := archive.OpenDirectory("file://" + t.TempDir())
	require.NoError(t, err)
	require.Error(t, d.Create(context.Background(), "../up", strings.NewReader(""), 0))
}
