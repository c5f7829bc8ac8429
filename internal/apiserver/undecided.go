package apiserver

import (
	"fmt"
	"net/http"
	"strings"
)

// undecidedError says that no authorizer allowed a request, and that some could not decide. Its answer is upstream's
// (endpoints/handlers/responsewriters InternalError): a text, no Status.
type undecidedError struct{ failure error }

func (e *undecidedError) Error() string { return "authorize a request: " + e.failure.Error() }
func (e *undecidedError) Unwrap() error { return e.failure }

func (e *undecidedError) write(w http.ResponseWriter, r *http.Request) {
	harmless := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	http.Error(w, harmless.Replace(fmt.Sprintf("Internal Server Error: %q: %v", r.RequestURI, e.failure)),
		http.StatusInternalServerError)
}
