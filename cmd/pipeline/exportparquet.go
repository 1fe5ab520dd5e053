package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/echomq/pipeline/consumer"
	"github.com/echomq/pipeline/retention/archive"
	"github.com/echomq/pipeline/retention/replay"
)

func (r *replaying) parquet() bool { return strings.HasSuffix(r.file, ".parquet") }

// exportParquet writes the messages to a file, which is there when it is whole: what its columns hold stands at its end.
func (r *replaying) exportParquet(ctx context.Context, source *past) (err error) {
	if err := source.onlyOne("--out " + r.file); err != nil {
		return err
	}
	if _, err := os.Lstat(r.file); err == nil {
		return usagef("--out %s: it is there, and a Parquet file is not gone on with: give another name", r.file)
	}
	identity, err := source.Identity(ctx)
	if err != nil {
		return err
	}
	job, err := replay.New(source, r.cfg)
	if err != nil {
		return err
	}
	part, err := os.Create(r.file + ".part")
	if err != nil {
		return fileError(r.file, err)
	}
	defer os.Remove(part.Name())
	defer part.Close()
	out := archive.NewFileWriter(part, r.addr, identity)
	p := r.begin()
	err = job.Run(ctx, func(_ context.Context, d *consumer.Delivery) error {
		if err := out.Put(&d.Record); err != nil {
			return err
		}
		p.gave(&d.Record)
		return nil
	})
	if err == nil {
		if err = errors.Join(out.Close(), part.Close()); err == nil {
			err = os.Rename(part.Name(), r.file)
		}
		if err != nil {
			err = fileError(r.file, err)
		}
	}
	return p.report(err)
}
