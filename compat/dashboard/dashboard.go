// Package dashboard looks at the pages of the dashboard in Chromium.
package dashboard
