// Package page writes reports as single HTML files that load nothing: tables and charts in inline
// SVG, in light and dark. Charts take their colours from the classes c0 to c7 of the page's style.
package page
