// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html/template"
	"io"
)

// Document is a report as one page of HTML that needs nothing beside it: no
// script, no other file, no network.
type Document struct {
	Title    string
	Lead     []string // paragraphs below the title
	Sections []Section
	Foot     string
}

// Section is a part of a document. Each piece may be missing.
type Section struct {
	Heading string
	Text    []string
	Plots   []Plot
	Table   *Table
}

// Table is cells with headers. Numbers stand to the right.
type Table struct {
	Caption string
	Header  []string
	Left    []bool // by column: text, which stands to the left
	Rows    [][]string
}

// TableOf makes a table of rows with the chosen fields.
func TableOf[T any](caption string, l Layout[T], rows []T) *Table {
	t := &Table{Caption: caption}
	for _, f := range l {
		t.Header, t.Left = append(t.Header, f.Name), append(t.Left, f.Left)
	}
	for i := range rows {
		cells := make([]string, len(l))
		for k, f := range l {
			cells[k] = f.Of(&rows[i]).String()
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// WriteHTML writes the document. Text is made harmless on the way.
func WriteHTML(w io.Writer, d *Document) error {
	return page.Execute(w, d)
}

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"clean": Clean,
	"svg": func(p Plot, section, plot int) template.HTML {
		return template.HTML(p.SVG(fmt.Sprintf("p%d-%d", section, plot))) //nolint:gosec // SVG escapes all text
	},
	"left": func(t *Table, i int) bool { return i < len(t.Left) && t.Left[i] },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{clean .Title}}</title>
<style>
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #57606a; --rule: #d0d7de; --s0: #0b5cad; --s1: #b3470f; --s2: #4d7c0f; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181d; --fg: #e6e9ec; --dim: #a3adb8; --rule: #39424c; --s0: #6cb6ff; --s1: #ffa26b; --s2: #9fd356; } }
@media print { :root { --bg: #fff; --fg: #000; --dim: #333; --rule: #999; --s0: #0b5cad; --s1: #b3470f; --s2: #4d7c0f; } body { max-width: none; font-size: 10pt; } figure, tr { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } }
body { background: var(--bg); color: var(--fg); font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--rule); }
p { margin: .4rem 0; max-width: 48rem; } footer, .key, figcaption, caption { color: var(--dim); font-size: .9rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
caption { text-align: left; padding: .3rem 0; } th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th.l, td.l, tbody th { text-align: left; } thead th { vertical-align: bottom; } tbody th { font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; } figure { margin: 0; }
svg { width: 100%; height: auto; } .grid { stroke: var(--rule); } .tick { fill: var(--dim); font-size: 12px; } .mark { stroke: var(--fg); stroke-dasharray: 2 3; }
polyline { fill: none; stroke-width: 2; } .s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); stroke-dasharray: 6 3; } .s2 { stroke: var(--s2); stroke-dasharray: 2 2; }
circle.s0 { fill: var(--s0); } circle.s1 { fill: var(--s1); } circle.s2 { fill: var(--s2); }
.key span { margin-right: 1rem; } .key svg { width: 2rem; height: .6rem; vertical-align: middle; }
</style>
</head>
<body>
<main>
<h1>{{clean .Title}}</h1>
{{range .Lead}}<p>{{clean .}}</p>
{{end}}
{{- range $s, $section := .Sections}}<section aria-labelledby="h{{$s}}">
<h2 id="h{{$s}}">{{clean .Heading}}</h2>
{{range .Text}}<p>{{clean .}}</p>
{{end}}
{{- if .Plots}}<div class="plots">
{{range $i, $plot := .Plots}}<figure><figcaption>{{clean .Title}}</figcaption>
{{svg $plot $s $i}}
{{if gt (len .Series) 1}}<div class="key">{{range $k, $_ := .Series}}<span><svg viewBox="0 0 32 8" aria-hidden="true"><polyline class="s{{$k}}" points="0,4 32,4"/></svg> {{clean .Name}}</span>{{end}}</div>
{{end}}</figure>
{{end}}</div>
{{end}}
{{- with .Table}}{{$t := .}}<div class="wide" tabindex="0" role="region" aria-label="{{clean .Caption}}"><table>
<caption>{{clean .Caption}}</caption>
<thead><tr>{{range $i, $h := .Header}}<th scope="col"{{if left $t $i}} class="l"{{end}}>{{clean $h}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}<tr>{{range $i, $c := .}}{{if and (eq $i 0) (left $t 0)}}<th scope="row">{{clean $c}}</th>{{else}}<td{{if left $t $i}} class="l"{{end}}>{{clean $c}}</td>{{end}}{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}</section>
{{end}}</main>
<footer><p>{{clean .Foot}}</p></footer>
</body>
</html>
`))
