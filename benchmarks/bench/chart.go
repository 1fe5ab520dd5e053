package bench

import (
	"fmt"
	"html"
	"strings"
)

// Chart is a picture of results, in SVG: of each work two bars, its rate and that of its ceiling, and the ratio beside them.
func Chart(results []Result) string {
	rows := make([]Bars, len(results))
	for i := range results {
		r := &results[i]
		rows[i] = Bars{r.Work, []Bar{
			{fmt.Sprintf("%s, ratio %.2f", thousands(r.PerSecond), r.Ratio), r.PerSecond, false},
			{r.Ceiling + " " + thousands(r.CeilingPerSecond), r.CeilingPerSecond, true},
		}}
	}
	about := ""
	if len(results) > 0 {
		r := &results[0]
		about = fmt.Sprintf("%s, %s; %d messages of %d bytes, medians of %d rounds", r.ServerName, r.Durability, r.Count, r.Size, r.Rounds)
	}
	return BarChart("Messages a second, and the ceiling of each work", about, rows)
}

// Bars are a group of bars in a chart.
type Bars struct {
	Name string
	Bars []Bar
}

// Bar is as long as its value.
type Bar struct {
	Label string
	Value float64
	Faint bool // it is what others are compared with
}

// BarChart is a picture of groups of bars, in SVG. It is drawn by hand, as those of topologies are: libraries of charts bring
// fonts and rasterizers along, for what is a rectangle for each number here.
func BarChart(title, about string, rows []Bars) string {
	const (
		wide, right    = 420.0, 150.0
		top, bar, room = 58.0, 15.0, 18.0
		digit          = 6.5 // of text, about
	)
	most, left, height := 1.0, 150.0, top+30
	for _, r := range rows {
		left = max(left, float64(len(r.Name))*digit+16)
		height += room + float64(len(r.Bars))*(bar+2)
		for _, b := range r.Bars {
			most = max(most, b.Value)
		}
	}
	width := left + wide + right
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img"><title>%s</title>`+"\n%s\n",
		width, height, width, height, html.EscapeString(title), chartStyle)
	fmt.Fprintf(&b, `<text class="h" x="16" y="24">%s</text><text class="s" x="16" y="42">%s</text>`+"\n", html.EscapeString(title), html.EscapeString(about))
	y := top
	for _, r := range rows {
		fmt.Fprintf(&b, `<text class="n" x="%.0f" y="%.0f">%s</text>`+"\n", left-10, y+bar+4, html.EscapeString(r.Name))
		for _, one := range r.Bars {
			class, length := "w", one.Value/most*wide
			if one.Faint {
				class = "c"
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%.0f" y="%.1f" width="%.1f" height="%.0f"/><text class="v" x="%.1f" y="%.1f">%s</text>`+"\n",
				class, left, y, length, bar, left+length+6, y+bar-3, html.EscapeString(one.Label))
			y += bar + 2
		}
		y += room
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
