package consumer

import "time"

const (
	paceTime   = 100 * time.Millisecond
	paceWindow = paceTime / 10
	maxPaced   = 4096 // messages
)

// pace bounds what is in flight by what is handled in paceTime, between two bounds: so that fast handlers do not wait for the server,
// and what slow ones have before them is soon begun.
type pace struct {
	least, most int // messages
	bound       int
	since       time.Time // when the window began
	ended       int       // messages that were through by then
}

func newPace(cfg *Config) pace {
	p := pace{least: cfg.MaxInFlight, most: cfg.MaxInFlight, bound: cfg.MaxInFlight}
	if cfg.paced {
		p.most = max(p.most, maxPaced)
	}
	return p
}

// follow is the bound, after so many messages in all. Where as many were handled as may be in flight, it does not wait for the end of its window:
// a backlog would be read in small parts until then.
func (p *pace) follow(now time.Time, ended int) int {
	if took := now.Sub(p.since); took >= paceWindow || took > 0 && ended-p.ended >= p.bound {
		handled := float64(ended-p.ended) * float64(paceTime) / float64(took)
		p.bound = int(min(float64(p.most), max(float64(p.least), handled)))
		p.since, p.ended = now, ended
	}
	return p.bound
}
