package archive

import (
	"context"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier/stream"
)

// expire takes segments out of the manifest whose last entry is older than the archive's max age, and then deletes their objects. What
// one that died between the two has left goes with the next.
func (a *Archiver) expire(ctx context.Context, m *manifest) (deleted int, err error) {
	if a.policy.ArchiveAge == 0 || len(m.Segments) == 0 {
		return 0, nil
	}
	h, err := stream.HoldingsOf(ctx, a.client, a.address.String())
	if err != nil {
		return 0, err
	}
	old := codec.FloorEntry(h.Now.Add(-a.policy.ArchiveAge))
	for deleted < len(m.Segments) && m.Segments[deleted].Last.Compare(old) < 0 {
		deleted++
	}
	if deleted == 0 {
		return 0, nil
	}
	if _, err := a.ask(ctx); err != nil { // who was frozen deletes nothing
		return 0, err
	}
	m.Gone = m.Segments[deleted-1].Last
	m.Segments = m.Segments[deleted:]
	if err := m.write(ctx, a.store, a.address); err != nil {
		return 0, err
	}
	objects, err := a.store.List(ctx, segmentPrefix(a.address))
	if err != nil {
		return 0, err
	}
	for _, o := range objects {
		if _, last, ok := parseSegmentName(a.address, o.Name); ok && last.Compare(m.Gone) <= 0 {
			if err := a.store.Delete(ctx, o.Name); err != nil {
				return 0, err
			}
		}
	}
	return deleted, nil
}
