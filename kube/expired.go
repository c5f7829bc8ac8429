package kube

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The three texts of 410.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter"
	continueAnyway = ", or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

// The causes in the details of a 410: why history was removed. They are an extension;
// upstream sends no details with 410. The message of the first is a sentence for people,
// the message of each of the others is one value for programs. An unknown value is left
// out, except that of CauseRemovedBy, which is then Unknown.
const (
	// CauseHistoryRemoved describes all causes in one sentence.
	CauseHistoryRemoved metav1.CauseType = "HistoryRemoved"
	// CauseOldest is the oldest resourceVersion of the resource that can still be
	// read, decimal.
	CauseOldest metav1.CauseType = "OldestResourceVersion"
	// CauseOldestAge is how old the change at that resourceVersion is, in seconds.
	CauseOldestAge metav1.CauseType = "OldestAgeSeconds"
	// CauseOldestTime is the time of the change at that resourceVersion, as RFC 3339 in UTC: the oldest
	// that can be asked for.
	CauseOldestTime metav1.CauseType = "OldestTime"
	// CauseRemovedBy is what removed the history before it: HistoryAge (older than
	// --history), HistoryBytes (over --history-bytes), Request (a compaction that
	// a client requested), Repair (of a damaged log), EncryptionKey (older history is encrypted
	// with a key that is no longer configured), Definition (older history
	// belongs to an earlier definition of the resource), Replaced (the server's data was
	// replaced: see ReasonReplaced), Unseen (the server that answers was away: see ReasonUnseen),
	// Unreadable (a stored value could not be read: see ReasonUnreadable), or Unknown.
	CauseRemovedBy metav1.CauseType = "RemovedBy"
	// CauseRemovedAt is the time of the removal, as RFC 3339 in UTC.
	CauseRemovedAt metav1.CauseType = "RemovedAt"
)

// ReasonReplaced is the ExpiredError.Reason of a resource version from before the
// server's data was replaced, or restored from a copy that did not have it. Equal UIDs and
// resource versions do not mean equal objects across it.
const ReasonReplaced = "replaced"

// ReasonUnseen is the ExpiredError.Reason of a resource version that the server that answers has
// not seen: it was away for longer than the storage keeps history, and knows what was before and
// what came of it. Another server may have it.
const ReasonUnseen = "unseen"

// ReasonUnreadable is the ExpiredError.Reason of a resource version from before a stored value was replaced
// that the server could not read.
const ReasonUnreadable = "unreadable"

// removers has the words of ExpiredError.Reason and of CauseRemovedBy side by side.
func removers() [][2]string {
	return [][2]string{
		{"", "Unknown"},
		{"age", "HistoryAge"},
		{"bytes", "HistoryBytes"},
		{"requested", "Request"},
		{"repair", "Repair"},
		{"key", "EncryptionKey"},
		{ReasonDefinition, "Definition"},
		{ReasonReplaced, "Replaced"},
		{ReasonUnseen, "Unseen"},
		{ReasonUnreadable, "Unreadable"},
	}
}

// translate finds a word in one column of removers and returns that of the other;
// a word that is not there stays as it is.
func translate(word string, from, to int) string {
	for _, pair := range removers() {
		if pair[from] == word {
			return pair[to]
		}
	}
	return word
}

// Status is what a server answers: 410 Expired, with upstream's text and the causes above.
func (e *ExpiredError) Status() metav1.Status {
	s := failure(http.StatusGone, metav1.StatusReasonExpired)
	kind := e.Kind
	if !e.RequestedTime.IsZero() {
		kind = 0 // upstream has no text for it
	}
	switch kind {
	case ExpiredList:
		s.Message = listExpired
	case ExpiredContinue:
		s.Message = continueExpired + "."
		if e.Continue != "" {
			s.Message = continueExpired + continueAnyway
			s.Continue = e.Continue
		}
	case ExpiredWatch:
		s.Message = e.Error()
	default:
		s.Message = e.Error()
	}
	s.Details = &metav1.StatusDetails{Causes: expiredCauses(e)}
	return s
}

// failure is a Status without a text.
func failure(code int32, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason,
	}
}

func expiredCauses(e *ExpiredError) []metav1.StatusCause {
	var causes []metav1.StatusCause
	add := func(t metav1.CauseType, value string) {
		causes = append(causes, metav1.StatusCause{Type: t, Message: value, Field: "resourceVersion"})
	}
	add(CauseHistoryRemoved, e.Why())
	add(CauseOldest, e.Oldest.String())
	if e.OldestAge > 0 {
		add(CauseOldestAge, strconv.FormatInt(int64(e.OldestAge.Round(time.Second)/time.Second), 10))
	}
	if !e.OldestTime.IsZero() {
		add(CauseOldestTime, e.OldestTime.UTC().Format(time.RFC3339Nano))
	}
	add(CauseRemovedBy, translate(e.Reason, 0, 1))
	if !e.RemovedAt.IsZero() {
		add(CauseRemovedAt, e.RemovedAt.UTC().Format(time.RFC3339))
	}
	return causes
}

// Why returns a sentence without a full stop: how far back history goes, and what
// removed the rest. Upstream does not report this.
func (e *ExpiredError) Why() string {
	var text strings.Builder
	fmt.Fprintf(&text, "the oldest resourceVersion that can still be asked for is %d", e.Oldest)
	if e.OldestAge > 0 {
		fmt.Fprintf(&text, " (%v old)", e.OldestAge.Round(time.Second))
	}
	switch e.Reason {
	case "":
		text.WriteString("; what removed the history before it is not known")
	case "age":
		text.WriteString("; what came before was older than history is kept")
	case "bytes":
		text.WriteString("; what came before did not fit into the bytes that history may take")
	case "requested":
		text.WriteString("; what came before was removed on request")
	case ReasonReplaced:
		text.WriteString("; the server's data was replaced, or restored from a copy that did not have this one")
	case ReasonUnseen:
		text.WriteString("; the server was away from its storage meanwhile, and has not seen what happened before it")
	case ReasonUnreadable:
		text.WriteString("; an object of the resource was stored before it in a form that the server could not read")
	case "repair":
		text.WriteString("; what came before was damaged, or left out when the storage was repaired")
	case "key":
		text.WriteString("; what came before is encrypted with a key that is no longer configured")
	case ReasonDefinition:
		text.WriteString("; then the definition of the resource was created, and what came before is not its own")
	default:
		text.WriteString("; what came before was removed: " + e.Reason)
	}
	if !e.RemovedAt.IsZero() {
		text.WriteString(", at " + e.RemovedAt.UTC().Format(time.RFC3339))
	}
	return text.String()
}

// WhyExpired reads the causes of a 410: the inverse of [ExpiredError.Status]. Requested,
// Kind and Continue are not on the wire, and not set. It is nil when err is not a 410,
// or has no such causes, as with other servers.
func WhyExpired(err error) *ExpiredError {
	if e, is := errors.AsType[*ExpiredError](err); is {
		return e
	}
	s, is := statusIn(err)
	if !is || s.Details == nil || classifyStatus(s) != OutcomeExpired {
		return nil
	}
	value := func(t metav1.CauseType) string {
		i := slices.IndexFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == t })
		if i < 0 {
			return ""
		}
		return s.Details.Causes[i].Message
	}
	oldest, _ := ParseResourceVersion(value(CauseOldest)) // 0 where it is none
	if oldest == 0 {
		return nil
	}
	e := &ExpiredError{Oldest: oldest, Reason: translate(value(CauseRemovedBy), 1, 0)}
	if seconds, err := strconv.ParseUint(value(CauseOldestAge), 10, 32); err == nil {
		e.OldestAge = time.Duration(seconds) * time.Second
	}
	if at, err := time.Parse(time.RFC3339, value(CauseOldestTime)); err == nil {
		e.OldestTime = at
	}
	if at, err := time.Parse(time.RFC3339, value(CauseRemovedAt)); err == nil {
		e.RemovedAt = at
	}
	return e
}
