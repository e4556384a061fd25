// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"strings"
)

// page is a manual page in the language of man(7).
type page struct{ strings.Builder }

func (b *page) line(lines ...string) {
	for _, l := range lines {
		b.WriteString(l + "\n")
	}
}

// head has no date: the same sources give the same page.
func (b *page) head(name string, section int, version string) {
	b.line(`.\" Made from the program's own help; changes here are lost.`,
		fmt.Sprintf(`.TH %s %d "" "rifling %s" "rifling"`, strings.ToUpper(escape(name)), section, escape(version)),
		".nh", ".ad l")
}

func (b *page) section(name string) { b.line(".SH " + name) }

// item is a tagged paragraph.
func (b *page) item(tag, text string) {
	b.line(".TP", ".B "+escape(tag))
	b.paragraph(strings.Fields(text))
}

func (b *page) paragraph(words []string) {
	b.line(escape(strings.Join(words, " ")))
}

// text writes paragraphs, and lines that begin with blanks as they are.
func (b *page) text(s string) {
	for i, part := range strings.Split(strings.TrimSpace(s), "\n\n") {
		if strings.HasPrefix(part, " ") {
			b.verbatim(part)
			continue
		}
		if i > 0 {
			b.line(".PP")
		}
		b.paragraph(strings.Fields(part))
	}
}

func (b *page) verbatim(s string) {
	b.line(".PP", ".nf", ".RS")
	for l := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		b.line(escape(strings.TrimPrefix(l, "  ")))
	}
	b.line(".RE", ".fi")
}

func (b *page) seeAlso(list []string) {
	if len(list) == 0 {
		return
	}
	b.section("SEE ALSO")
	for i, name := range list {
		comma := ","
		if i == len(list)-1 {
			comma = ""
		}
		title, section, _ := strings.Cut(strings.TrimSuffix(name, ")"), "(")
		b.line(fmt.Sprintf(".BR %s (%s)%s", escape(title), section, comma))
	}
}

// escape keeps roff from reading text as its own language: backslashes, minus
// signs that must stay such, quotes, and dots at a line's start.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, `"`, `\(dq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
