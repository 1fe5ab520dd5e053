package report

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/echomq/pipeline/benchmarks/bench"
)

//go:embed report.md.tmpl readme.md.tmpl
var templates embed.FS

// The files, below the root of the repository.
const (
	ResultsDir = "benchmarks/results"
	reportFile = "benchmarks/REPORT.md"
	readme     = "README.md"
)

// What the short table of the README stands between.
const (
	tableBegins = "<!-- made by benchmarks/report, from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// Name is that of the results file of a run, which is "bench", "peers" or "growth".
func Name(root, run string) string { return filepath.Join(root, ResultsDir, run+".jsonl") }

// Files are the report, its charts and the README, made of the results below a repository's root: their text, by name below the root.
func Files(root string) (map[string]string, error) {
	ours, err := readFile(Name(root, "bench"))
	if err != nil {
		return nil, err
	}
	peers, err := readFile(Name(root, "peers"))
	if err != nil {
		return nil, err
	}
	growth, err := readFile(Name(root, "growth"))
	if err != nil {
		return nil, err
	}
	list, err := goals(ours, peers)
	if err != nil {
		return nil, err
	}
	old, err := os.ReadFile(filepath.Join(root, readme))
	if err != nil {
		return nil, err
	}
	t, err := template.New("").Funcs(template.FuncMap{"figure": figure, "join": strings.Join}).ParseFS(templates, "*.tmpl")
	if err != nil {
		return nil, err
	}
	p := &page{Ours: ours, Peers: peers, Growth: growth, Goals: list, templates: t}
	short, err := p.run("readme.md.tmpl", p)
	if err != nil {
		return nil, err
	}
	text, err := p.run("report.md.tmpl", p)
	if err != nil {
		return nil, err
	}
	files := p.charts()
	files[reportFile] = text
	files[readme], err = between(string(old), short)
	return files, err
}

// Write writes them.
func Write(root string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func readFile(name string) (*Results, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r, err := Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

// between puts a text in the place of the one between the marks.
func between(old, text string) (string, error) {
	before, rest, begins := strings.Cut(old, tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return "", errors.New("report: README.md has no place for the table: put " + strings.TrimSpace(tableBegins) + " and " + strings.TrimSpace(tableEnds) + " into it, a line each")
	}
	return before + tableBegins + text + tableEnds + after, nil
}

// page is what the templates see.
type page struct {
	Ours, Peers, Growth *Results
	Goals               []goal
	templates           *template.Template
}

// Run is where and when something was measured, and with what target.
type Run struct {
	Target string
	*Results
}

// Runs are what the report is made of.
func (p *page) Runs() []Run {
	return []Run{{"bench", p.Ours}, {"bench-peers", p.Peers}, {"bench-growth", p.Growth}}
}

func (p *page) run(name string, data any) (string, error) {
	var b bytes.Buffer
	err := p.templates.ExecuteTemplate(&b, name, data)
	return b.String(), err
}

// Missed are the goals that are not met.
func (p *page) Missed() []goal {
	return slices.DeleteFunc(slices.Clone(p.Goals), goal.Met)
}

// Why is the explanation of a goal that is missed, of which the template has one for each key, and empty when the key's was given
// before.
func (p *page) Why(i int) (string, error) {
	missed := p.Missed()
	if i > 0 && missed[i-1].Key == missed[i].Key {
		return "", nil
	}
	text, err := p.run("why "+missed[i].Key, p)
	return strings.TrimSpace(text), err
}

// Works are those of one kind: with a ceiling of raw commands, or of durability.
func (p *page) Works(durability bool) []bench.Result {
	return slices.DeleteFunc(slices.Clone(p.Ours.Works), func(r bench.Result) bool {
		return strings.HasPrefix(r.Work, "durability-") != durability
	})
}

// Ratio is that of rounds.
func (p *page) Ratio(r bench.Result) Spread { return Spread{r.Ratio, r.RatioMin, r.RatioMax} }

// What says what a work is, and Ceilings what it is compared with.
func (p *page) What(name string) (what string) {
	for _, g := range append(bench.Groups(), bench.DurabilityGroup()) {
		for _, w := range g.Works {
			if w.Name == name {
				what = w.What
			}
		}
	}
	return what
}

// Ceilings are the names of what works are compared with, and the commands.
func (p *page) Ceilings() (list []string) {
	for _, g := range bench.Groups() {
		for i := range g.Works {
			name, what := g.Works[i].Ceiling()
			if line := fmt.Sprintf("%s: %s", name, what); !slices.Contains(list, line) {
				list = append(list, line)
			}
		}
	}
	return list
}

// Sets are the names of the sets of matches.
func (p *page) Sets() (names []string) {
	for _, t := range p.Peers.Turns {
		if !slices.Contains(names, t.Set) {
			names = append(names, t.Set)
		}
	}
	return names
}

// Matches are those of a set.
func (p *page) Matches(set string) []Match {
	return slices.DeleteFunc(Matches(p.Peers.Turns), func(m Match) bool { return m.Set != set })
}

// Table is that of a set.
func (p *page) Table(set string) string { return Table(p.Matches(set)) }

// Servers say what each contestant works on, and what that keeps.
func (p *page) Servers() (rows [][2]string) {
	for _, t := range p.Peers.Turns {
		if row := [2]string{t.Who, t.On}; !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
	return rows
}

// Synced is how many times River's rate is that of the product with a server that syncs each commit, as PostgreSQL does.
func (p *page) Synced() (Spread, error) {
	for _, m := range Matches(p.Peers.Turns) {
		synced := slices.IndexFunc(m.Contestants, func(c Contestant) bool { return strings.HasSuffix(c.Name, "fsync of each write") })
		if m.Match == "drain against River, 100 at once" && synced > 0 {
			return ratios(m.Contestants[synced].Turns, m.Contestants[1].Turns), nil
		}
	}
	return Spread{}, errors.New("report: the drain against River with as much kept has not been measured: make bench-peers")
}

// Rates are what a reader asks for first.
func (p *page) Rates() string {
	var b strings.Builder
	for _, of := range [][3]string{{"publish", "stream-publish", "pack-publish"}, {"consume", "stream-consume", "pack-consume"}, {"both at once", "stream", "pack"}} {
		var rates [2]string
		for i, work := range of[1:] {
			for _, r := range p.Ours.Works {
				if r.Work == work {
					rates[i] = figure(r.PerSecond)
				}
			}
		}
		fmt.Fprintf(&b, "%s %s, in packs of 100 %s; ", of[0], rates[0], rates[1])
	}
	return "Messages a second: " + strings.TrimSuffix(b.String(), "; ") + "."
}

// Behind are the matches in which another does better than the product, in words.
func (p *page) Behind() (list []string) {
	for _, m := range Matches(p.Peers.Turns) {
		for k := range m.Contestants {
			if m.Behind(k) {
				list = append(list, fmt.Sprintf("%s: %s %s %s, %s %s; the one times the other, in a round, %s",
					m.Match, m.Contestants[0].Name, m.Contestants[0].Value(), m.Unit, m.Contestants[k].Name, m.Contestants[k].Value(), m.Ratio(k)))
			}
		}
	}
	return list
}

// Envelope is a row for each benchmark of the codec.
func (p *page) Envelope() (rows []envelopeRow) {
	for _, b := range p.Ours.Benchmarks {
		if !slices.ContainsFunc(rows, func(r envelopeRow) bool { return r.Name == b.Name }) {
			list := p.Ours.benchmark(b.Name)
			rows = append(rows, envelopeRow{
				b.Name, spread(list, func(b Benchmark) float64 { return b.Ns }),
				spread(list, func(b Benchmark) float64 { return b.Bytes }), spread(list, func(b Benchmark) float64 { return b.Allocs }),
			})
		}
	}
	return rows
}

type envelopeRow struct {
	Name              string
	Ns, Bytes, Allocs Spread
}

// charts are the pictures, by name.
func (p *page) charts() map[string]string {
	files := map[string]string{
		ResultsDir + "/works.svg":      bench.Chart(p.Works(false)),
		ResultsDir + "/durability.svg": bench.Chart(p.Works(true)),
		ResultsDir + "/growth.svg":     bench.GrowthChart(p.Growth.Points),
	}
	for _, set := range p.Sets() {
		files[ResultsDir+"/"+set+".svg"] = peersChart(set, p.Matches(set))
	}
	return files
}

// peersChart draws the matches whose values are rates.
func peersChart(set string, matches []Match) string {
	var rows []bench.Bars
	for _, m := range matches {
		if !strings.HasSuffix(m.Unit, "/s") || m.Lower {
			continue
		}
		for k, c := range m.Contestants {
			bar := bench.Bar{Faint: k > 0, Value: c.Value().Median, Label: c.Name + " " + figure(c.Value().Median) + "/s"}
			if k == 0 {
				rows = append(rows, bench.Bars{Name: m.Match})
			}
			last := &rows[len(rows)-1]
			last.Bars = append(last.Bars, bar)
		}
	}
	return bench.BarChart("A second, medians of rounds: "+set, "", rows)
}
