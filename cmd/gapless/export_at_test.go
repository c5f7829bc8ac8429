package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// TestAnExportIsAsItWasAtATime: also of what was deleted, and without resources that were not defined yet.
func TestAnExportIsAsItWasAtATime(t *testing.T) {
	b := newBench(t)
	b.create("default", "changed")
	b.create("default", "deleted")
	_, before, _ := command(t, "export", "--kubeconfig", b.ready.Kubeconfig)
	<-time.After(3 * time.Millisecond) // the clock of the server has milliseconds
	then := time.Now().Format(time.RFC3339Nano)
	<-time.After(3 * time.Millisecond)
	b.change("changed", "2")
	b.remove("deleted")
	b.create("default", "created")
	served := func(want int) {
		t.Helper()
		eventually(t, "the definition is served, or no longer", func() bool {
			code, _, _ := command(t, "export", "--resource", "books", "--kubeconfig", b.ready.Kubeconfig)
			return code == want
		})
	}
	for i := range 2 { // the history of the second definition is not that of the first one
		b.do(http.MethodPost, definitions, "", `{"metadata":{"name":"books.example.com"},"spec":{"group":"example.com",
"scope":"Cluster","names":{"plural":"books","kind":"Book"},"versions":[{"name":"v1","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
		served(exitOK)
		b.do(http.MethodPost, "/apis/example.com/v1/books", "",
			`{"apiVersion":"example.com/v1","kind":"Book","metadata":{"name":"b"}}`)
		_, out, stderr := command(t, "export", "--resource", "books", "--at", then, "--kubeconfig", b.ready.Kubeconfig)
		if out != "" || strings.Contains(stderr, "1 resources that were not defined then") != (i > 0) {
			t.Errorf("there were no books then:\n%s%s", out, stderr)
		}
		if code, _, _ := command(t, "history", "books", "--kubeconfig", b.ready.Kubeconfig); code != exitOK {
			t.Errorf("the history of books: exit code %d", code)
		}
		b.do(http.MethodDelete, definitions+"/books.example.com", "", "")
		served(exitRunTime)
	}
	code, out, stderr := command(t, "export", "--at", then, "--kubeconfig", b.ready.Kubeconfig)
	if code != exitOK || out != before || !strings.Contains(out, "name: deleted") {
		t.Errorf("exit code %d, as it was:\n%s\nis exported as\n%s%s", code, before, out, stderr)
	}
	if code, _, stderr = command(t, "compact", "--older-than", "0s", "--kubeconfig", b.ready.Kubeconfig); code != exitOK {
		t.Fatal(stderr)
	}
	dir := filepath.Join(t.TempDir(), "manifests")
	code, _, stderr = command(t, "export", dir, "--at", then, "--kubeconfig", b.ready.Kubeconfig)
	if _, err := os.Stat(dir); code != exitRunTime || !strings.Contains(stderr, "history goes back to 2") || err == nil {
		t.Errorf("exit code %d, %v, want 1, with how far history goes, and no directory:\n%s", code, err, stderr)
	}
}

// TestAnExportOfThePastIsNeverOneOfThePresent asks a server that ignores what asks for the past, as kube-apiserver does.
func TestAnExportOfThePastIsNeverOneOfThePresent(t *testing.T) {
	b := newBench(t)
	b.create("default", "one")
	cfg, err := clientcmd.BuildConfigFromFlags("", b.ready.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatalf("make a transport: %v", err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatalf("parse the host: %v", err)
	}
	plain := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		q := r.Out.URL.Query()
		q.Del("at")
		r.Out.URL.RawQuery = q.Encode()
	}})
	defer plain.Close()
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, args := range [][]string{{"--at", "0s"}, {"--at", "0s", "--resource", "configmaps"}} {
		code, out, stderr := command(t, append([]string{"export", "--kubeconfig", empty, "--server", plain.URL}, args...)...)
		if code != exitRunTime || out != "" || !strings.Contains(stderr, "keeps no past") {
			t.Errorf("%v: exit code %d, want 1 and no objects:\n%s%s", args, code, out, stderr)
		}
	}
	if code, out, stderr := command(t, "export", "--kubeconfig", empty, "--server", plain.URL, "--resource",
		"configmaps"); code != exitOK || !strings.Contains(out, "name: one") {
		t.Errorf("the present: exit code %d\n%s%s", code, out, stderr)
	}
	if code, _, stderr := command(t, "export", "--at", "25:00"); code != exitUsage || !strings.Contains(stderr, "--at") {
		t.Errorf("exit code %d, want 2:\n%s", code, stderr)
	}
}
