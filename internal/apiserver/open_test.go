package apiserver_test

import (
	"net/http"
	"testing"
)

// announced asks, when the header of an answer is written, how many watches are open.
type announced struct {
	http.ResponseWriter

	open func() int
	seen chan int // gets the answer
}

func (a announced) WriteHeader(code int) {
	a.seen <- a.open()
	a.ResponseWriter.WriteHeader(code)
}

func (a announced) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func TestAWatchIsAmongTheOpenOnesBeforeItsClientKnows(t *testing.T) {
	s := openServer(t, nil)
	seen := make(chan int, 1)
	url := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.api.ServeHTTP(announced{w, func() int { return len(s.api.Watches()) }, seen}, r)
	}), s.creds.ServerTLS())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v1/pods?watch=1", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := s.h2.Do(r)
	if err != nil {
		t.Fatalf("open a watch: %v", err)
	}
	defer func() { _ = resp.Body.Close() }() // the server notices
	if n := <-seen; n != 1 {
		t.Errorf("when the client learns that its watch is open, %d are, want 1", n)
	}
}
