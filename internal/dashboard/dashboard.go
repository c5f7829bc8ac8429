// Package dashboard is a web page that shows what a server keeps: its resources, what changed and who did it, the
// life of an object, and the open watches; and what a relay, the replicas over an etcd, and faults do.
//
// A [Dashboard] is an http.Handler. It reads objects and their past through the handler of the API, in the process and
// as its caller, so that nobody sees more here than by the API. Only what the API does not say comes from [Config]:
// the watches that are open. It serves HTML from templates, which works without JavaScript; a small script replaces the
// main part of a page when the server has news. Everything that a page needs is embedded.
//
// guard.go decides which requests are served, ask.go reads the API and hides the data of Secrets, change.go says what
// changed. between.go compares two moments, by the changes (comparing.go) where one page has them all, otherwise by lists
// (lists.go).
// While nobody looks there is no goroutine, and nothing is sampled.
package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"
)

// Config configures a Dashboard. API, Resources and Newest are required.
type Config struct {
	// API answers requests of the Kubernetes API.
	API http.Handler
	// Open, if not nil, lets in whoever reaches the page, if the Host header is a loopback address: it returns a request
	// for the API with the credentials by which that is read. Data of Secrets is never shown then. Nil: callers have
	// credentials of their own.
	Open func(*http.Request) *http.Request
	// Resources returns what can be listed and watched. It is called once for each page.
	Resources func() []Resource
	// StatusPath is the path of the API that a caller must be allowed to GET to see Watches.
	StatusPath string
	// Watches returns the watches that are open; nil: that is not known.
	Watches func() []Watch
	// Expired returns the last watches that got 410, the newest first; nil: that is not known.
	Expired func() []Expired
	// Mirrors says that StatusPath has the status of a relay, and Replicates that of a replica over etcd.
	Mirrors, Replicates bool
	// FaultsPath is the path of the API with the rules of faults; "": there are none.
	FaultsPath string
	// Newest returns the newest resourceVersion of all resources.
	Newest func() uint64
	// Revision returns a number that is another one after a change of any object.
	Revision func() uint64
	// About is what the page says it shows, like "gapless serve, v1.2.3".
	About  string
	Logger *slog.Logger
}

// Watch is a watch that is open.
type Watch struct {
	User, UserAgent string
	Resource        string // "pods", or "deployments.apps"
	Namespace       string // "": all, or the resource has none
	// LabelSelector and FieldSelector are as the client wrote them.
	LabelSelector, FieldSelector string
	Since                        time.Time
	Delivered                    uint64 // events
	// Known is the last resourceVersion that was sent, and Behind how many revisions the store was ahead of it while
	// events were being sent.
	Known, Behind uint64
}

// Expired is a watch that got 410, at a time.
type Expired struct {
	Watch

	At   time.Time
	From uint64 // the resourceVersion that the client named
	Why  string // a sentence
}

// Dashboard serves the page. It is safe for concurrent use.
type Dashboard struct {
	cfg   Config
	mux   *http.ServeMux
	pages map[string]*template.Template
	busy  chan struct{} // has an element for each page that is made
}

//go:embed assets
var assets embed.FS

// New returns a Dashboard; it starts no goroutine.
func New(cfg Config) (*Dashboard, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{
		cfg: cfg, mux: http.NewServeMux(), pages: map[string]*template.Template{}, busy: make(chan struct{}, pagesAtOnce),
	}
	for _, name := range []string{
		"overview", "timeline", "object", "blame", "between", "watches", "relay", "replicas", "faults", "login", "problem",
	} {
		page, err := template.New("layout.html").Funcs(functions()).ParseFS(assets, "assets/layout.html", "assets/"+name+".html")
		if err != nil {
			return nil, err
		}
		d.pages[name] = page
	}
	d.page("/{$}", d.overview)
	d.page("/timeline", d.timeline)
	d.page("/object", d.object)
	d.page("/object.yaml", d.download)
	d.page("/blame", d.blame)
	d.page("/between", d.between)
	d.page("/watches", d.watches)
	if cfg.Mirrors {
		d.page("/relay", d.relay)
	}
	if cfg.Replicates {
		d.page("/replicas", d.replicas)
	}
	if cfg.FaultsPath != "" {
		d.page("/faults", d.faults)
	}
	d.page(livePath, d.live)
	d.mux.HandleFunc("GET /style.css", asset("style.css", "text/css; charset=utf-8"))
	d.mux.HandleFunc("GET /dashboard.js", asset("dashboard.js", "text/javascript; charset=utf-8"))
	if cfg.Open == nil {
		d.mux.HandleFunc("GET /login", d.loginForm)
		d.mux.HandleFunc("POST /login", d.login)
		d.mux.HandleFunc("POST /logout", d.logout)
	}
	return d, nil
}

// pageWithin is how long what a page needs may be waited for: a part that is late is said to be missing.
const pageWithin = 30 * time.Second

// pagesAtOnce is how many pages are made at once: each may hold the newest changes of all resources.
const pagesAtOnce = 4

// page serves a path by a function, and its errors as pages.
func (d *Dashboard) page(path string, serve func(http.ResponseWriter, *http.Request) error) {
	d.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		if d.cfg.Open == nil && !hasCredentials(r) { // also where the API serves anonymous requests
			d.problem(w, r, &Refusal{Code: http.StatusUnauthorized, Message: "Log in."})
			return
		}
		if path != livePath {
			ctx, cancel := context.WithTimeout(r.Context(), pageWithin)
			defer cancel()
			r = r.WithContext(ctx)
			select {
			case d.busy <- struct{}{}:
				defer func() { <-d.busy }()
			case <-ctx.Done():
				d.problem(w, r, &Refusal{Code: http.StatusServiceUnavailable, Message: "Too many pages are asked for."})
				return
			}
		}
		if err := serve(w, r); err != nil {
			d.problem(w, r, err)
		}
	})
}

// problem is the page of an error; who is not known gets the form to log in.
func (d *Dashboard) problem(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusInternalServerError
	if refused, is := errors.AsType[*Refusal](err); is {
		code = refused.Code
	}
	if code == http.StatusUnauthorized && d.cfg.Open == nil {
		d.render(w, r, view{Page: "login", Code: code, Title: "Log in"})
		return
	}
	d.render(w, r, view{Page: "problem", Code: code, Title: http.StatusText(code), Data: err.Error()})
}

// view is what a template gets.
type view struct {
	Page  string // its template
	Code  int
	Title string
	Live  bool // the page is replaced when there are changes
	Data  any

	// Set by render.
	About, Path string
	Open        bool // no credentials are needed
	// There are the pages of a relay, of replicas, of faults.
	Mirrors, Replicates, Fails bool
}

// render writes a page. Nothing is written before all of it is known.
func (d *Dashboard) render(w http.ResponseWriter, r *http.Request, v view) {
	v.About, v.Path, v.Open = d.cfg.About, r.URL.Path, d.cfg.Open != nil
	v.Mirrors, v.Replicates, v.Fails = d.cfg.Mirrors, d.cfg.Replicates, d.cfg.FaultsPath != ""
	var body bytes.Buffer
	if err := d.pages[v.Page].Execute(&body, v); err != nil {
		d.cfg.Logger.ErrorContext(r.Context(), "a page of the dashboard", slog.String("page", v.Page), slog.Any("err", err))
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(v.Code)
	_, _ = w.Write(body.Bytes()) // the client may be gone
}

func asset(name, media string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(body) // the client may be gone
	}
}
