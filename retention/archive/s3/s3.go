// Package s3 is a store of an archive in what speaks the protocol of S3: that of AWS, and of others that honour
// If-None-Match on PUT, on which it depends that no object is written over.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/echomq/pipeline/retention/archive"
)

// Store is an archive.Store in a bucket. It is safe for concurrent use.
type Store struct {
	core           minio.Core
	bucket, prefix string
}

// Open opens the store at "s3://bucket/prefix". Behind it may stand ?region=, ?endpoint=host:port of another server than
// AWS's, and ?insecure=true when that has no TLS. The credentials are those of the environment (AWS_ACCESS_KEY_ID,
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), of ~/.aws/credentials, or of the machine's role. Nothing is asked. archive.ErrStore.
func Open(address string) (*Store, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%w: want s3://bucket/prefix", archive.ErrStore)
	}
	endpoint, secure := "s3.amazonaws.com", true
	options := &minio.Options{Creds: credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
	})}
	for name, values := range u.Query() {
		switch value := values[0]; name {
		case "region":
			options.Region = value
		case "endpoint":
			endpoint = value
		case "insecure":
			secure = value != "true"
		default:
			return nil, fmt.Errorf("%w: %.20q is none of region, endpoint and insecure", archive.ErrStore, name)
		}
	}
	options.Secure = secure
	client, err := minio.New(endpoint, options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", archive.ErrStore, err)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return &Store{minio.Core{Client: client}, u.Host, prefix}, nil
}

// Create implements archive.Store, by one request, which the server refuses when there is an object.
func (s *Store) Create(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	options := minio.PutObjectOptions{DisableMultipart: true, ContentType: "application/octet-stream"}
	options.SetMatchETagExcept("*")
	_, err := s.core.Client.PutObject(ctx, s.bucket, s.prefix+name, io.NewSectionReader(body, 0, size), size, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return fmt.Errorf("%w: %s", archive.ErrExists, name)
	}
	return err
}

// ReadAt implements archive.Store, by one request.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, at int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var options minio.GetObjectOptions
	if err := options.SetRange(at, at+int64(len(p))-1); err != nil {
		return 0, err
	}
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+name, options)
	switch minio.ToErrorResponse(err).Code {
	case minio.NoSuchKey:
		return 0, fmt.Errorf("%w: %s", archive.ErrAbsent, name)
	case minio.InvalidRange:
		return 0, io.EOF
	}
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.ReadFull(body, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// List implements archive.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]archive.Object, error) {
	var list []archive.Object
	for o := range s.core.Client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		list = append(list, archive.Object{Name: strings.TrimPrefix(o.Key, s.prefix), Bytes: o.Size})
	}
	return list, nil
}

// Delete implements archive.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.core.Client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{})
}
