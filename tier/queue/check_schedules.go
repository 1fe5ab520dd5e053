package queue

import "context"

// schedules audits declarations and occurrences, which come and go together.
func (c *check) schedules(ctx context.Context) error {
	s := NewSchedules(&Client{client: c.client, queue: c.queue})
	l, err := s.listing(ctx, "all", maxSchedules)
	if err != nil {
		return err
	}
	for _, r := range l.rows {
		switch {
		case r.text == "":
			c.broken(c.queue.OccurrencesKey(), "%s is due and was not declared", r.name)
		case r.err != nil:
			c.broken(c.queue.SchedulesKey(), "%s cannot be read: %v", r.name, r.err)
		case r.next.IsZero():
			c.broken(c.queue.OccurrencesKey(), "%s was declared and is never due", r.name)
		}
	}
	return nil
}
