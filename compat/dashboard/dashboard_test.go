package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pages are those that are looked at in each form.
func pages(b *browser) []string {
	b.see("/timeline?ns=shop")
	rvs := value[[]string](b, `[...document.querySelectorAll('.changes input[name=b]')].map(i => i.value)`)
	if len(rvs) < 10 {
		b.t.Fatalf("there are %d changes", len(rvs))
	}
	return []string{
		"/", "/?all=1", "/timeline", "/timeline?ns=shop", "/timeline?ns=nothing", "/watches",
		"/object?r=configmaps.v1&ns=shop&name=web", "/object?r=deployments.v1.apps&ns=shop&name=web",
		"/object?r=secrets.v1&ns=shop&name=db", "/between?ns=shop&a=" + rvs[len(rvs)-1] + "&b=" + rvs[0], "/between",
		"/between?a=1h&status=1", "/blame?r=deployments.v1.apps&ns=shop&name=web&status=1",
		"/blame?r=secrets.v1&ns=shop&name=db", "/object?r=configmaps.v1&ns=shop&name=web&at=0s",
		"/object?r=configmaps.v1&ns=shop&name=web&at=2020-01-01", "/faults",
	}
}

// TestPagesInABrowser looks at each page as phones and screens show it, in both color schemes.
func TestPagesInABrowser(t *testing.T) {
	s := serve(t)
	s.fill()
	b := look(t, s.Dashboard)
	source := axeSource(t)
	all := pages(b)
	b.everyForm(source, all...)
	b.size(900, "light")
	b.see("/timeline?ns=shop")
	b.shoot("dashboard-timeline")
	b.size(900, "dark")
	b.see("/object?r=deployments.v1.apps&ns=shop&name=web")
	b.shoot("dashboard-object")
	b.size(900, "light")
	b.see("/blame?r=deployments.v1.apps&ns=shop&name=web")
	b.shoot("dashboard-blame")
}

// TestPagesOfARelay looks at those that are other ones than a server's.
func TestPagesOfARelay(t *testing.T) {
	s := serve(t)
	s.fill()
	b := look(t, s.relay("configmaps,pods"))
	source := axeSource(t)
	for {
		b.see("/relay")
		if value[int](b, `document.querySelectorAll('tbody tr').length`) == 2 {
			break // both are mirrored
		}
	}
	b.everyForm(source, "/", "/relay", "/timeline?ns=shop", "/blame?r=configmaps.v1&ns=shop&name=web")
}

// TestPagesOfReplicas looks at the page that only they have, and an overview over etcd.
func TestPagesOfReplicas(t *testing.T) {
	b := look(t, replicas(t))
	source := axeSource(t)
	for { // until both are registered, and one leads
		b.see("/replicas")
		if value[bool](b, `document.querySelectorAll('tbody')[0].rows.length === 2 &&
document.querySelector('main').textContent.includes('leader: it runs')`) {
			break
		}
	}
	b.everyForm(source, "/", "/replicas")
}

// everyForm examines pages at both widths, in both color schemes.
func (b *browser) everyForm(source string, paths ...string) {
	b.t.Helper()
	for _, width := range []int64{360, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			b.size(width, scheme)
			for _, path := range paths {
				b.examine(path, source, width, scheme)
			}
		}
	}
}

// examine reports what is wrong with a page.
func (b *browser) examine(path, source string, width int64, scheme string) {
	b.t.Helper()
	at := fmt.Sprintf("%s at %d, %s", path, width, scheme)
	b.complains()
	b.see(path)
	if scroll := value[int64](b, `document.documentElement.scrollWidth`); scroll > width {
		wide := value[[]string](b, `[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, pre') &&
e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 120)).slice(0, 3)`)
		b.t.Errorf("%s is %d wide: %q", at, scroll, wide)
	}
	if dark := value[bool](b,
		`getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)'`); dark != (scheme == "dark") {
		b.t.Errorf("%s is dark: %v", at, dark)
	}
	if said := b.complains(); len(said) > 0 && path != "/between" { // which is an error, on purpose
		b.t.Errorf("%s: the console says %q", at, said)
	}
	for _, v := range b.accessible(source) {
		b.t.Errorf("%s breaks %s (%s): %s, for example %s: %s", at, v.ID, v.Impact, v.Help, v.Nodes[0].HTML,
			v.Nodes[0].FailureSummary)
	}
}

// TestFromTheTimelineToADifference clicks.
func TestFromTheTimelineToADifference(t *testing.T) {
	s := serve(t)
	s.fill()
	b := look(t, s.Dashboard)
	b.size(1280, "light")
	b.see("/")
	b.do("open the timeline", chromedp.Click(`nav a[href="/timeline"]`), chromedp.WaitVisible("form.filters"))
	b.do("filter", chromedp.SendKeys(`form[role=search] input[name=ns]`, "shop"),
		chromedp.SendKeys(`form[role=search] input[name=text]`, "green"), chromedp.Click("form[role=search] button"))
	b.until(`location.search.includes('text=green') && document.readyState === 'complete'`)
	b.do("open a change", chromedp.Click(`.changes li:last-child a`), chromedp.WaitVisible("table.diff"))
	if cells := value[[]string](b, `[...document.querySelectorAll('tr.changed td')].map(c => c.textContent)`); !strings.Contains(
		strings.Join(cells, "|"), "  color: blue|  color: green") {
		t.Errorf("the difference is %q", cells)
	}
	b.see("/timeline?ns=shop&kind=configmaps.v1")
	b.do("choose two changes", chromedp.Click(`.changes li:last-child input[name=a]`),
		chromedp.Click(`.changes li:first-child input[name=b]`), chromedp.Click(".actions button"))
	b.until(`location.pathname === '/between' && document.readyState === 'complete'`)
	if text := value[string](b, `document.querySelector('main').textContent`); !strings.Contains(text, "added") ||
		strings.Contains(text, "Nothing") {
		t.Errorf("between two changes: %s", text)
	}
	if said := b.complains(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestTwoCursorsOfTheTimelineLeadToWhatDiffers moves them with keys, and asks who has set what in an object that differs.
func TestTwoCursorsOfTheTimelineLeadToWhatDiffers(t *testing.T) {
	s := serve(t)
	s.fill()
	b := look(t, s.Dashboard)
	b.size(1280, "light")
	b.see("/timeline?ns=shop")
	const from, to = `document.querySelector('.moments input[name=a]')`, `document.querySelector('.moments input[name=b]')`
	value[bool](b, `document.querySelector('[data-cursor=a]').focus() || true`)
	b.do("move a cursor", chromedp.KeyEvent(kb.ArrowRight))
	b.until(from + `.value.startsWith('20') && ` + to + `.value > ` + from + `.value`)
	s.send("POST", maps, `{"metadata":{"name":"while-you-choose"}}`)
	b.do("move it to the other end, and back", chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.Home))
	first := value[string](b, from+`.value`)
	if text := value[string](b, `document.querySelector('[data-cursor=a]').getAttribute('aria-valuetext')`); text != first {
		t.Errorf("the cursor says %q, and the field %q", text, first)
	}
	b.do("compare", chromedp.Click(".moments button"))
	b.until(`location.pathname === '/between' && document.readyState === 'complete'`)
	text := value[string](b, `document.querySelector('main').textContent`)
	if !strings.Contains(text, "Deployment shop/web") || strings.Contains(text, "while-you-choose") {
		t.Errorf("between the cursors: %s", text)
	}
	b.do("open what differs", chromedp.Click(`h2 a[href*="deployments"]`), chromedp.WaitVisible(`a[href^="/blame"]`))
	b.do("ask who set it", chromedp.Click(`a[href^="/blame"]`), chromedp.WaitVisible("table.blame"))
	b.do("as it was", chromedp.SendKeys(`input[name=at]`, first), chromedp.Click("form.filters button"))
	b.until(`location.search.includes('at=20') && document.readyState === 'complete'`)
	if said := b.complains(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}

// TestThePageFollowsChanges also without a pointer: keys lead everywhere, and the focus is visible.
func TestThePageFollowsChanges(t *testing.T) {
	s := serve(t)
	s.fill()
	b := look(t, s.Dashboard)
	b.size(1280, "light")
	b.see("/timeline?ns=shop")
	const focused = `document.activeElement`
	b.do("press the first key", chromedp.KeyEvent(kb.Tab))
	if class := value[string](b, focused+`.className`); class != "skip" {
		t.Errorf("the first key leads to %q", class)
	}
	b.do("skip", chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === 'main' || location.hash === '#main'`)
	opened := false
	for range 40 {
		b.do("press a key", chromedp.KeyEvent(kb.Tab))
		if !value[bool](b, `(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.height > 0 })()`) {
			t.Errorf("the focus is not visible: %s", value[string](b, focused+`.outerHTML.slice(0, 200)`))
		}
		if opened = value[bool](b, focused+`.matches('.changes a')`); opened {
			break
		}
	}
	if !opened {
		t.Fatal("no key leads to a change")
	}
	s.send("POST", maps, `{"metadata":{"name":"while-you-look"}}`)
	b.until(`document.querySelector('main').textContent.includes('while-you-look')`)
	if !value[bool](b, focused+`.matches('.changes a')`) {
		t.Error("the focus is lost when the page is replaced")
	}
	b.do("open it", chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname === '/object' && document.readyState === 'complete'`)
	if said := b.complains(); len(said) > 0 {
		t.Errorf("the console says %q", said)
	}
}
