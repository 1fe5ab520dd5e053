package retention

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
)

// Past reads the archives of streams, at the store that the policy of each names: it is the Past of cursors that begin below their
// log's first entry. It has a row group of each stream in memory while that is read. It is safe for concurrent use.
type Past struct {
	client *tier.Client
	stores func(ctx context.Context, address string) (archive.Store, error)

	mu      sync.Mutex
	readers map[tier.Address]*archive.Reader
}

// NewPast makes one. Stores opens the store at the address that a policy has. Nil: those that file:// names.
func NewPast(client *tier.Client, stores func(ctx context.Context, address string) (archive.Store, error)) *Past {
	if stores == nil {
		stores = openDirectory
	}
	return &Past{client: client, stores: stores, readers: map[tier.Address]*archive.Reader{}}
}

func openDirectory(_ context.Context, address string) (archive.Store, error) {
	return archive.OpenDirectory(address)
}

// After returns the next entries of a stream above one, as the archive has them. None: it has none above.
//
// Errors: those of archive.Reader.After; archive.ErrStore; a *tier.Error of a store that may answer later.
func (p *Past) After(ctx context.Context, address tier.Address, id codec.EntryID) ([]codec.Entry, error) {
	r, err := p.reader(ctx, address)
	if err != nil {
		return nil, err
	}
	entries, err := r.After(ctx, id)
	if err != nil {
		p.mu.Lock()
		delete(p.readers, address) // the policy may name another by now
		p.mu.Unlock()
	}
	if err == nil || errors.Is(err, stream.ErrGap) || errors.As(err, new(*archive.DamageError)) {
		return entries, err
	}
	return nil, &tier.Error{Op: "read the archive", Key: address.String(), Class: tier.ErrUnreachable, Err: err}
}

func (p *Past) reader(ctx context.Context, address tier.Address) (*archive.Reader, error) {
	p.mu.Lock()
	r := p.readers[address]
	p.mu.Unlock()
	if r != nil {
		return r, nil
	}
	policy, err := stream.RetentionOf(ctx, p.client, address.String())
	if err == nil && policy.Archive == "" {
		err = fmt.Errorf("%w: %s was archived, and its policy names no archive any more: 'pipeline retention set %s --archive URL' names it again", archive.ErrStore, address, address)
	}
	if err != nil {
		return nil, err
	}
	store, err := p.stores(ctx, policy.Archive)
	if err == nil {
		r, err = archive.NewReader(store, archive.ReaderConfig{Address: address.String()})
	}
	if err != nil {
		return nil, fmt.Errorf("retention: the archive of %s, %s: %w", address, policy.Archive, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers[address] = r
	return r, nil
}
