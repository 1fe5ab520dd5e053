package bench

import (
	"context"
	"errors"

	"github.com/sourcegraph/conc/pool"
)

// together does a part of the messages each, at once.
type together []contestant

func (t together) prepare(ctx context.Context, n int) error {
	for i, c := range t {
		if err := c.prepare(ctx, n*(i+1)/len(t)-n*i/len(t)); err != nil {
			return err
		}
	}
	return nil
}

func (t together) run(ctx context.Context) error {
	p := pool.New().WithContext(ctx).WithFirstError().WithCancelOnError()
	for _, c := range t {
		p.Go(c.run)
	}
	return p.Wait()
}

func (t together) keys() (all []string) {
	for _, c := range t {
		all = append(all, c.keys()...)
	}
	return all
}

func (t together) clean(ctx context.Context) error {
	errs := make([]error, len(t))
	for i, c := range t {
		errs[i] = c.clean(ctx)
	}
	return errors.Join(errs...)
}
