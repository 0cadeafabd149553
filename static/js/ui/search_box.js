// A search field that asks once the typing pauses. `/` leads to the first one of a page.

import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

const TYPING_PAUSE_MS = 120;

/** @param {{ value: string, label: string, placeholder?: string, onSearch: (text: string) => void }} props */
export function SearchBox({ value, label, placeholder = label, onSearch }) {
  const [text, setText] = useState(value);
  const latest = useRef(onSearch);
  latest.current = onSearch;
  // A search of our own that comes back must not undo what was typed meanwhile.
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) setText(value);
    sent.current = value;
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      latest.current(text);
    }, TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<input
    type="search"
    class="search"
    placeholder=${placeholder}
    aria-label=${label}
    aria-keyshortcuts="/"
    spellcheck=${false}
    autocomplete="off"
    value=${text}
    onInput=${(/** @type {any} */ e) => setText(e.target.value)}
  />`;
}
