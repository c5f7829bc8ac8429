// Program user is a user of the informer: it waits for an object of a server that always
// answers the same, and prints it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	server := httptest.NewServer(http.HandlerFunc(serve))
	defer server.Close()
	defer cancel()

	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	maps := informer.New(informer.For[*corev1.ConfigMap](&rest.Config{Host: server.URL}, resource))
	ended := make(chan error, 1)
	go func() { ended <- maps.Run(ctx) }()
	if err := maps.WaitSynced(ctx); err != nil {
		return err
	}
	object, found := maps.Get(informer.Key{Namespace: "default", Name: "one"})
	if !found || object.Data["a"] != "b" {
		return fmt.Errorf("the cache has %v", object)
	}
	fmt.Println("the cache has ConfigMap", object.Name)
	cancel()
	return <-ended
}

// serve answers a LIST, refuses a streaming one, and keeps a watch open until the client ends it.
func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.FormValue("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case r.FormValue("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[`+
			`{"metadata":{"namespace":"default","name":"one","uid":"1","resourceVersion":"1"},"data":{"a":"b"}}]}`)
	}
}
