package bench

import (
	"fmt"
	"html"
	"strings"
)

// Chart is a picture of results, in SVG: of each work two bars, its rate and that of its ceiling, and the ratio beside them.
// It is drawn by hand, as those of topologies are: libraries of charts bring fonts and rasterizers along, for what is a
// rectangle for each number here.
func Chart(results []Result) string {
	const (
		left, wide, right = 150.0, 420.0, 150.0
		top, row, bar     = 58.0, 52.0, 15.0
	)
	most := 1.0
	for i := range results {
		most = max(most, results[i].PerSecond, results[i].CeilingPerSecond)
	}
	width, height := left+wide+right, top+row*float64(len(results))+30
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img"><title>Messages a second, and the ceiling of each work</title>`+"\n%s\n", width, height, width, height, chartStyle)
	fmt.Fprintf(&b, `<text class="h" x="16" y="24">Messages a second, and the ceiling of each work</text>`+"\n")
	if len(results) > 0 {
		r := &results[0]
		fmt.Fprintf(&b, `<text class="s" x="16" y="42">%s</text>`+"\n", html.EscapeString(fmt.Sprintf("%s, %s; %d messages of %d bytes, medians of %d rounds", r.ServerName, r.Durability, r.Count, r.Size, r.Rounds)))
	}
	for i := range results {
		r, y := &results[i], top+row*float64(i)
		fmt.Fprintf(&b, `<text class="n" x="%.0f" y="%.0f">%s</text>`+"\n", left-10, y+bar+4, html.EscapeString(r.Work))
		bars := []struct {
			class, label string
			value        float64
		}{
			{"w", fmt.Sprintf("%s, ratio %.2f", thousands(r.PerSecond), r.Ratio), r.PerSecond},
			{"c", r.Ceiling + " " + thousands(r.CeilingPerSecond), r.CeilingPerSecond},
		}
		for k, one := range bars {
			at, length := y+float64(k)*(bar+2), one.value/most*wide
			fmt.Fprintf(&b, `<rect class="%s" x="%.0f" y="%.1f" width="%.1f" height="%.0f"/><text class="v" x="%.1f" y="%.1f">%s</text>`+"\n",
				one.class, left, at, length, bar, left+length+6, at+bar-3, html.EscapeString(one.label))
		}
	}
	return b.String() + "</svg>\n"
}

const chartStyle = `<style>
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}
.h{font-size:14px;font-weight:600}.s{font-size:10.5px;fill:#5b6770}.n{text-anchor:end}.v{font-size:10.5px;fill:#5b6770}
.w{fill:#3b7dc4}.c{fill:#c3ccd5}
@media(prefers-color-scheme:dark){text{fill:#e4e9ee}.s,.v{fill:#aab4be}.w{fill:#5a9be0}.c{fill:#4a535d}}
</style>`

// thousands is a rate with commas.
func thousands(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + "/s"
}
