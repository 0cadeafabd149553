// The theme's colours and font for charts, read once for all of them: asking the browser for each makes it
// lay out the page each time.

import { computed } from "@preact/signals";
import { SERIES } from "../model/color.js";
import { shownTheme } from "../state/theme.js";
import { canvasFont, token } from "./colors.js";

export const palette = computed(() => {
  const theme = shownTheme.value;
  return {
    theme,
    series: Array.from({ length: SERIES }, (_, i) => token(`--series-${i}`)),
    line: token("--line"),
    edge: token("--edge"),
    text: token("--quiet"),
    odd: token("--red"),
    font: canvasFont(),
  };
});
