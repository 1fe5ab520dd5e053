package stage

import "time"

// span is a window's time, in Unix ms: its start belongs to it, its end does not.
type span struct{ start, end int64 }

// spans says in which windows a time counts, oldest first. A session is that of the message alone.
func (w *Window) spans(dst []span, t int64, loc *time.Location) []span {
	switch {
	case w.Tumbling != 0:
		size := time.Duration(w.Tumbling).Milliseconds()
		start := floor(t, size)
		return append(dst, span{start, start + size})
	case w.Hopping != nil:
		size, every := time.Duration(w.Hopping.Size).Milliseconds(), time.Duration(w.Hopping.Every).Milliseconds()
		for start := floor(t-size, every) + every; start <= t; start += every {
			dst = append(dst, span{start, start + size})
		}
		return dst
	case w.Session != 0:
		return append(dst, span{t, t + time.Duration(w.Session).Milliseconds()})
	}
	y, m, d := time.UnixMilli(t).In(loc).Date()
	ny, nm, nd := y, m, d
	switch w.Calendar {
	case "day":
		nd++
	case "week":
		d -= (int(time.UnixMilli(t).In(loc).Weekday()) + 6) % 7 // since Monday
		nd = d + 7
	case "month":
		d, nd, nm = 1, 1, m+1
	case "year":
		m, d, nm, nd, ny = 1, 1, 1, 1, y+1
	}
	return append(dst, span{midnight(y, m, d, loc), midnight(ny, nm, nd, loc)})
}

// floor is the multiple of size at or below t.
func floor(t, size int64) int64 {
	r := t % size
	if r < 0 {
		r += size
	}
	return t - r
}

// midnight is the first instant of a day, which is not always 00:00, nor the only 00:00.
func midnight(y int, m time.Month, d int, loc *time.Location) int64 {
	y, m, d = time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Date() // the 32nd is the 1st
	same := func(t time.Time) bool {
		ty, tm, td := t.Date()
		return ty == y && tm == m && td == d
	}
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	if !same(t) { // clocks were put forward over it, or over the whole day
		begin, end := t.ZoneBounds()
		if ty, tm, td := t.Date(); time.Date(ty, tm, td, 0, 0, 0, 0, time.UTC).Before(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)) {
			t = end
		} else {
			t = begin
		}
	}
	for before := t.Add(-30 * time.Minute); same(before); before = t.Add(-30 * time.Minute) {
		t = before // clocks were put back over it
	}
	return t.UnixMilli()
}
