package consumer

import (
	"context"

	"github.com/echomq/pipeline/tier/queue"
)

// Jobs are the jobs of a queue as a Source: a job is a message whose ID is the job's, and whose Attempt that of the job. Their
// lanes take turns; Config.Order is None, since nothing of a queue waits for another thing.
func Jobs(w *queue.Workers) Source {
	if w == nil {
		return nil // which New refuses
	}
	return jobSource{w}
}

type jobSource struct{ workers *queue.Workers }

func (s jobSource) Join(ctx context.Context, prefix string) (Member, error) {
	m, err := s.workers.Join(ctx, prefix)
	if err != nil {
		return nil, err
	}
	return jobMember{m}, nil
}

// jobMember reads out of order: a lane does not know when jobs of another were made.
type jobMember struct{ *queue.Member }

func (jobMember) unordered() {}

func (s jobSource) Origin() Origin {
	return Origin{Scope: s.workers.Queue(), Stream: "jobs", Group: "w"}
}
