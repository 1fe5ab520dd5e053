package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/echomq/pipeline/codec"
	"github.com/echomq/pipeline/tier"
)

// outcome is what became of a job that was not enqueued; the zero value: it was.
type outcome struct {
	what  string
	other codec.ID // who has its unique key
	lane  string   // to be declared, and then tried again
}

// outcomesOf reads '<place>=<what>;' ...
func outcomesOf(text string) (map[int]outcome, error) {
	outcomes := map[int]outcome{}
	for part := range strings.SplitSeq(strings.TrimSuffix(text, ";"), ";") {
		if part == "" {
			continue
		}
		place, what, _ := strings.Cut(part, "=")
		i, err := strconv.Atoi(place)
		if err != nil {
			return nil, fmt.Errorf("queue: enqueue: unexpected outcome %.64q", part)
		}
		o := outcome{}
		var about string
		switch o.what, about, _ = strings.Cut(what, " "); o.what {
		case "duplicate":
		case "elsewhere":
			o.lane = about
			err = tier.CheckName("lane", about)
		case "kept", "taken", "replaced":
			o.other, err = codec.Parse(about)
		default:
			err = fmt.Errorf("queue: enqueue: unexpected outcome %.64q", part)
		}
		if err != nil {
			return nil, err
		}
		outcomes[i] = o
	}
	return outcomes, nil
}

// receipt tells the caller.
func (o *outcome) receipt(r *Receipt, job *encoded) {
	switch o.what {
	case "duplicate":
		r.Err = ErrDuplicate
	case "taken":
		r.Err = &UniqueError{Key: job.unique[1:], Holder: o.other}
	default:
		r.ID, r.Existing = o.other, true
	}
}
