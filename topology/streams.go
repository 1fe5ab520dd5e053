package topology

import (
	"context"
	"time"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
	"github.com/echomq/pipeline/tier/stream"
	"github.com/echomq/pipeline/topology/stage"
)

// scopeResources are what a scope declares.
func scopeResources(scope string, s Scope) (list []*resource) {
	if s.Partitions > 0 {
		a := attributes{}
		a.setNumber("count", s.Partitions)
		list = append(list, &resource{
			name: name{kindPartitions, scope, ""}, attributes: a,
			put: func(ctx context.Context, client *tier.Client) error {
				return stream.Partition(ctx, client, scope, s.Partitions)
			},
			migrate: func(ctx context.Context, client *tier.Client, tell func(string)) error {
				return stream.Repartition(ctx, client, scope, s.Partitions, func(left []stream.Undrained) {
					tell("group or cursor " + left[0].Name + " of " + left[0].Stream.String())
				})
			},
		})
	}
	for _, own := range sorted(s.Streams) {
		st, address := s.Streams[own], scope+"/"+own
		parts := partsOf(scope, s.Partitions)
		list = append(list, streamResource(address, own, parts, st))
		for _, group := range sorted(st.Groups) {
			list = append(list, groupResource(address, own, group, parts, st.Groups[group]))
		}
	}
	return list
}

func streamResource(address, own string, parts []string, st Stream) *resource {
	a, policy := attributes{}, st.Retention.policy()
	a.set("brand", st.Brand)
	a.set("kind", kindOfStream(st.Exclusive, st.Keyed))
	a.set("retention", policy.String())
	return &resource{
		name: name{kindStream, address, ""}, attributes: a, parted: parts[0]+"/"+own != address,
		put: func(ctx context.Context, client *tier.Client) error {
			if err := declareStream(ctx, client, address, parts[0]+"/"+own != address, st); err != nil {
				return err
			}
			for _, part := range parts {
				if err := stream.SetRetention(ctx, client, part+"/"+own, policy); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func kindOfStream(exclusive, keyed bool) string {
	switch {
	case exclusive:
		return "exclusive"
	case keyed:
		return "keyed"
	}
	return ""
}

// declareStream makes a stream known. An exclusive one is declared under a node number of this process, which mints no id.
func declareStream(ctx context.Context, client *tier.Client, address string, partitioned bool, st Stream) error {
	cfg := stream.WriterConfig{Address: address, Brand: codec.Brand(st.Brand), Keyed: st.Keyed, Exclusive: st.Exclusive}
	if partitioned {
		w, err := stream.NewPartitionedWriter(client, cfg)
		if err == nil {
			_, err = w.Declare(ctx)
		}
		return err
	}
	if st.Exclusive {
		lease, err := client.LeaseNode(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
		cfg.Mint = lease.Mint()
	}
	w, err := stream.NewWriter(client, cfg)
	if err == nil {
		_, err = w.Declare(ctx)
	}
	return err
}

func groupResource(address, own, group string, parts []string, g Group) *resource {
	a := attributes{}
	if g.Lease > 0 {
		a.set("lease", g.Lease.String())
	}
	start := stream.Head()
	if g.Start == "new" {
		start = stream.New()
	}
	return &resource{
		name: name{kindGroup, address, group}, attributes: a, parted: parts[0]+"/"+own != address,
		put: func(ctx context.Context, client *tier.Client) error {
			for _, part := range parts {
				g, err := stream.NewGroup(client, stream.GroupConfig{Address: part + "/" + own, Name: group, Start: start, Lease: time.Duration(g.Lease)})
				if err == nil {
					err = g.Create(ctx)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// leaseText is a lease as a document has it.
func leaseText(d time.Duration) string { return stage.Duration(d).String() }
